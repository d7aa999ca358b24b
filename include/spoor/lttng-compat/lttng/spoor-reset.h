/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included more than once. */
/* Between two passes. */
#undef SPOOR_LTTNG_INTEGER_
#undef SPOOR_LTTNG_FLOAT_
#undef SPOOR_LTTNG_STRING_
#undef SPOOR_LTTNG_ARRAY_
#undef SPOOR_LTTNG_SEQUENCE_
#undef SPOOR_LTTNG_ENUM_
#undef SPOOR_LTTNG_UNUSED_
#undef SPOOR_LTTNG_LABELS_
#undef SPOOR_LTTNG_CLASS_
#undef SPOOR_LTTNG_INSTANCE_
#undef SPOOR_LTTNG_LEVEL_
#undef SPOOR_LTTNG_REFUSE_
#undef SPOOR_LTTNG_PASS_
