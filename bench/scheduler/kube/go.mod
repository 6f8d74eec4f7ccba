module berth/bench/scheduler/kube

go 1.25
