/* SPDX-License-Identifier: GPL-2.0-or-later */
/* call() leads to NAME, and that back to the program. With names of one length all such objects are laid out alike. */
__attribute__((noinline, noclone)) int NAME(int (*back)(int), int n);
int call(int (*back)(int), int n);

int NAME(int (*back)(int), int n)
{
	return back(n) + 1;
}

int call(int (*back)(int), int n)
{
	return NAME(back, n) + 1;
}
