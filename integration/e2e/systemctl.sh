#!/bin/bash
# Stands in for systemd on a machine of the lab: it starts what the unit file in /etc/systemd/system says, as the user that it says, and keeps the
# process's number and log in $E2E_MACHINE.
set -eu
now=
words=()
for arg; do
	case $arg in
	--now) now=1 ;;
	-*) ;;
	*) words+=("$arg") ;;
	esac
done
verb=${words[0]}
unit=${words[1]:-}
unit=${unit%.service}
pidfile=$E2E_MACHINE/$unit.pid

of() { sed -n "s/^$1=//p" "/etc/systemd/system/$unit.service" | tail -1; }

# A number may have been given to another process since.
active() {
	[ -f "$pidfile" ] && pid=$(cat "$pidfile") && grep -qa berth "/proc/$pid/cmdline" 2>/dev/null && ! grep -q '^State:.Z' "/proc/$pid/status"
}

start() {
	active && return
	user=$(of User)
	umask "$(of UMask)"
	for state in $(of StateDirectory); do
		install -d -m "$(of StateDirectoryMode)" -o "${user:-root}" -g "${user:-root}" "/var/lib/$state"
		chmod 0755 "/var/lib/${state%%/*}"
	done
	# shellcheck disable=SC2046 # the command's words are meant to be split
	setsid setpriv --reuid="${user:-root}" --regid="${user:-root}" --init-groups $(of ExecStart) >>"$E2E_MACHINE/$unit.log" 2>&1 </dev/null &
	echo $! >"$pidfile"
}

stop() {
	active || return 0
	pid=$(cat "$pidfile")
	kill -TERM "$pid"
	for _ in $(seq 300); do
		active || return 0
		sleep 0.1
	done
	kill -KILL "$pid"
}

case $verb in
daemon-reload) ;;
start) start ;;
stop) stop ;;
restart) stop && start ;;
enable) [ -z "$now" ] || start ;;
disable) [ -z "$now" ] || stop ;;
is-active) active && echo active || { echo inactive && exit 3; } ;;
*) echo "systemctl: the lab does not know $verb" >&2 && exit 1 ;;
esac
