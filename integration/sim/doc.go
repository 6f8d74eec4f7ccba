// Package sim runs whole control planes in bubbles, with faults at random, and checks what came of it. A world is three or five peers as they are
// (state machine, planner, consensus, API, gossip) on a network in memory and disks that can be made slow, stuck or full; nodes that follow
// orders; clients that write and read through the API. It owns the faults, the workload and the checks; what it checks is what an operator was
// promised, seen from outside: a history of writes and reads with the order of a single register a key, answers that are not older than they say,
// acknowledged writes that are there once, equal states at equal index, and one owner a GPU.
//
// Two modes: in safety the faults never stop; in liveness they do, and then everything must be right again within 60 simulated seconds. Peers run
// with raft's default timers. A seed decides the faults and the workload, but the runtime decides the order of goroutines, so that a seed
// repeats a run's plan and not each of its steps. Every run keeps its story in a file, which is left behind when the run fails.
package sim
