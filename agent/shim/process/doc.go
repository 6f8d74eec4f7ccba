// Package process makes each shim a process of its own, which outlives the agent that started it and is found again by
// the next. It owns what only the operating system shows: sessions, cgroups, parent-death signals, the folder that a shim
// leaves on disk, and the protocol between agent and shim on a unix socket in that folder. It must never know the
// cluster, nor what an engine is.
//
// [Processes] is the agent's side, [Main] is what `berth shim` runs. Linux only.
//
// A shim holds a lock on its folder from before it is started until it is gone, so whether it lives is never a guess by
// process id. Its engine has a session and, where allowed, a cgroup of its own, and a mark in its environment; whichever
// of them is left after the shim's death finds the engine's processes, whatever they call themselves.
package process
