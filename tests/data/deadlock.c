/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A deadlock of the shape of Apache's bug 42031: the listener holds `timeout` while it waits on `idlers` for an idle
 * worker; the worker wants `timeout` before it would signal `idlers`. Says "hung" when both have gone to sleep.
 * deadlock [wait]: hangs only when a byte has come on stdin.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t timeout_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t idlers_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idlers_cond = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t both;
static int idlers;

__attribute__((noinline)) void thread_mutex_lock(pthread_mutex_t *mutex)
{
	pthread_mutex_lock(mutex);
	__asm__ volatile("");
}

__attribute__((noinline)) void thread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	pthread_cond_wait(cond, mutex);
	__asm__ volatile("");
}

__attribute__((noinline)) void queue_info_set_idle(void)
{
	pthread_mutex_lock(&idlers_mutex);
	idlers++;
	pthread_cond_signal(&idlers_cond);
	pthread_mutex_unlock(&idlers_mutex);
	__asm__ volatile("");
}

__attribute__((noinline)) void process_socket(void)
{
	thread_mutex_lock(&timeout_mutex);
	pthread_mutex_unlock(&timeout_mutex);
	queue_info_set_idle();
	__asm__ volatile("");
}

__attribute__((noinline)) void queue_info_wait_for_idler(void)
{
	pthread_mutex_lock(&idlers_mutex);
	while (!idlers)
		thread_cond_wait(&idlers_cond, &idlers_mutex);
	pthread_mutex_unlock(&idlers_mutex);
	__asm__ volatile("");
}

static void *worker_thread(void *unused)
{
	pthread_barrier_wait(&both);
	process_socket();
	return unused;
}

static void *listener_thread(void *unused)
{
	pthread_mutex_lock(&timeout_mutex);
	pthread_barrier_wait(&both);
	queue_info_wait_for_idler();
	pthread_mutex_unlock(&timeout_mutex);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t worker, listener;

	if (argc > 1 && !strcmp(argv[1], "wait") && getchar() == EOF)
		return 1;
	pthread_barrier_init(&both, NULL, 2);
	pthread_create(&listener, NULL, listener_thread, NULL);
	pthread_create(&worker, NULL, worker_thread, NULL);
	usleep(300000);
	puts("hung");
	fflush(stdout);
	pthread_join(worker, NULL);
	return 0;
}
