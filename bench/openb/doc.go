// Command openb measures how much of a real GPU cluster a placement policy can fill, by the protocol of Weng et al., "Beware of Fragmentation" (USENIX
// ATC 2023), on the cluster and the tasks of alibaba/clusterdata's cluster-trace-gpu-v2023.
//
// The cluster is empty. All tasks arrive once in random order, then tasks drawn at random with replacement, until the GPU demand that has arrived is 130 %
// of the cluster. Each task is placed once, when it arrives, or dropped; none ends, none is moved. What counts is the part of the cluster's GPUs that is
// allocated in the end.
//
// The names of the machines, which break ties, are in another order in each run, as in the paper's simulator; every policy sees the same.
//
// Berth is its own planner's Placer, the very code that a leader places replicas with; what it is told of the workload is what has arrived so far. Random,
// BestFit and FGD are written down here; each is held against what the paper's own runs published, so that a comparison with them is one with the paper. Any trace and any
// cluster in the same columns will do; what nothing was published for is compared only here.
package main
