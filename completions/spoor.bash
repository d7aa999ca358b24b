# SPDX-License-Identifier: GPL-2.0-or-later
# bash completion for spoor. The words between @ signs are filled in from docs/*.md by scripts/md2man.py.

declare -A _spoor_options=(
@OPTIONS@
)

# What follows a verb that has words of its own.
declare -A _spoor_words=(
@WORDS@
)

# What follows an option: words, or @dir, @file, @pid, @comm, @any.
declare -A _spoor_arguments=(
@ARGUMENTS@
)

_spoor_offer() {
	local cur=$1 what=$2
	case $what in
	@dir) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
	@file) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
	@pid) mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && printf '%s ' [0-9]*)" -- "$cur") ;;
	@comm) mapfile -t COMPREPLY < <(compgen -W "$(cat /proc/[0-9]*/comm 2>/dev/null | sort -u)" -- "$cur") ;;
	@any) COMPREPLY=() ;;
	*) mapfile -t COMPREPLY < <(compgen -W "$what" -- "$cur") ;;
	esac
}

# Where the command of `spoor record -- CMD` begins; 0: there is none.
_spoor_command_at() {
	local i
	for ((i = 2; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} == -- ]]; then
			echo $((i + 1))
			return
		fi
	done
	echo 0
}

_spoor() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]} at
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		_spoor_offer "$cur" "@VERBS@ -h --help -V --version"
		return
	fi
	at=$(_spoor_command_at)
	if ((at)); then
		if declare -F _command_offset >/dev/null; then
			_command_offset "$at"
		else
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -c -f -- "$cur")
		fi
	elif [[ $verb == help ]]; then
		_spoor_offer "$cur" "@VERBS@"
	elif [[ $prev == -* && -n ${_spoor_arguments[$verb $prev]-} ]]; then
		_spoor_offer "$cur" "${_spoor_arguments[$verb $prev]}"
	elif [[ $cur == -* ]]; then
		_spoor_offer "$cur" "${_spoor_options[$verb]-} --"
	elif ((COMP_CWORD == 2)) && [[ -n ${_spoor_words[$verb]-} ]]; then
		_spoor_offer "$cur" "${_spoor_words[$verb]}"
	else
		_spoor_offer "$cur" @file
	fi
}

complete -F _spoor spoor
