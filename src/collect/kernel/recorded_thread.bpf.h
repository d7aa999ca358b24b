/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* What a recording keeps of a thread (SPOOR_THREAD_STATE of maps.bpf.h). */
#define CALL_BEGAN_BEFORE 2
#define TURN_OUTSIDE 1

struct thread {
	u64 start;      /* of the call in flight, set when all that follows is there; 0: none. Others may look on */
	u64 def_epoch;  /* segment that has this thread's definition */
	u64 call_epoch; /* segment that has what the call in flight refers to; from here to pending: of that call */
	u32 stack;
	u32 files[2];
	u32 told;     /* segment in which it was last written as pending */
	u16 id;       /* event id of the call in flight */
	u16 len;      /* bytes of data */
	u16 buf_at;   /* offset in data of a payload */
	u16 buf_len;  /* its bytes */
	u16 ret_at;   /* offset in data of the returned descriptor's file id */
	u8 flags;     /* enum spoor_event_flag */
	u8 room;      /* for the sockaddr that it asks for */
	u8 pending;   /* the call in flight was written as pending; CALL_BEGAN_BEFORE: when it began is only bounded */
	u8 at_end;    /* it was told of as in flight at the recording's end */
	u8 renamed;
	u32 turn; /* another one for each call that it was seen to begin; | TURN_OUTSIDE since that has ended */
	u32 met;  /* there is something about it in met_calls (met.bpf.h) */
	SPOOR_MEMBER;
	u64 args[6];
	u8 data[SPOOR_MAX_DATA];
};

#define SPOOR_THREAD_HEAD offsetof(struct thread, data) /* bytes that must be cleared for a new one */
