# Berth. `make` alone lists the targets. Everything but `make deps` needs only Go and make.

export CGO_CFLAGS ?= -g -O2 -Wno-deprecated-declarations
GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  = -s -w -X berth/internal/release.Version=$(VERSION)

# Packages whose goroutines share memory enough to earn the race detector on every change.
RACE = ./consensus/... ./peer/... ./admin/... ./gossip/... ./router/... ./agent/... ./internal/... ./idle ./roles ./dev

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z][a-z0-9_%-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([^:]*):.*## /  \1\t/' | expand -t 20

.PHONY: build
build: ## bin/berth and bin/berthctl
	@mkdir -p bin
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/berth ./cmd/berth
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/berthctl ./cmd/berthctl

# timed-build builds the programs and one demonstration, and says how long that took, apart from the demonstration's own times.
define timed-build
@began=$$(date +%s); $(MAKE) --no-print-directory -s build && $(GO) build -o bin/$(1) ./$(2) && echo "built in $$(($$(date +%s) - began)) s" && echo
endef

.PHONY: demo
demo: ## a whole cluster of separate processes does the main job, step by step, in about half a minute
	$(call timed-build,demo-cluster,demo/cluster)
	@bin/demo-cluster -bin bin

.PHONY: demo-llamacpp
demo-llamacpp: ## the same main job with real tokens: llama.cpp from npm and a tiny model (needs Node and npm)
	$(call timed-build,demo-real,demo/real)
	@bin/demo-real -bin bin

.PHONY: test
test: vet ## every test that needs only Go and make, with the skipped ones named and counted
	@$(GO) run ./internal/testsum ./...

.PHONY: race
race: ## the packages that share memory, under the race detector (needs gcc)
	@$(GO) run ./internal/testsum -- -race $(RACE)

.PHONY: vet
vet: ## gofmt, go vet and staticcheck
	@test -z "$$(gofmt -l . | tee /dev/stderr)" || { echo "run gofmt -w on these files"; exit 1; }
	@$(GO) vet ./...
	@$(GO) tool staticcheck ./...

MIN ?= 10
# Where there is memory to write to, simulated disks are there: they need not survive, and sync at once.
SHM = $(if $(wildcard /dev/shm/.),TMPDIR=/dev/shm)

.PHONY: e2e
e2e: build ## real processes on machines of their own: the pages of docs/operations, and faults under load (needs root, iproute2; ONLY=REGEXP for some)
	@$(GO) build -o bin/e2e ./integration/e2e
	@bin/e2e -bin bin $(if $(ONLY),-run '$(ONLY)')

.PHONY: sim
sim: ## random faults against what is promised, for thrice MIN=10 minutes: control planes, the ledger of use alone, whole clusters
	$(SHM) $(GO) test ./integration/sim -count=1 -run TestSimulation -v -timeout 0 -sim.for=$(MIN)m -sim.stories=$(or $(STORIES),/tmp)
	$(GO) test ./idle -count=1 -run 'TestNeverQuietLongerThanTrue|TestUnknownHasAnEnd' -v -timeout 0 -sim.faults=$$(( 200000 * $(MIN) ))
	$(GO) test ./dev -count=1 -run TestAWholeClusterNeverClaimsMoreQuietThanTrue -v -timeout 0 -truth.for=$(MIN)m

.PHONY: fixture
fixture: ## freeze a snapshot and a data directory of this release for every later one to open: NAME=1.0.0
	@test -n "$(NAME)" || { echo "say NAME=..., the release whose files these are"; exit 1; }
	$(GO) test ./fsm -count=1 -run TestFrozenSnapshots -freeze '$(NAME)'
	$(GO) test ./consensus -count=1 -run TestFrozenDataDirectories -freeze '$(NAME)'

.PHONY: mutants
mutants: ## plant each mistake of integration/mutants alone, and name the test that notices it (ONLY="NAME …" for some)
	$(GO) run ./integration/mutants/run $(ONLY)

.PHONY: bench-thrash
bench-thrash: ## five models, room for two, random requests, in virtual time: loads under the planner and under LRU (JSON=FILE for the figures)
	$(GO) run ./bench/thrash $(if $(JSON),-json $(JSON))

.PHONY: bench-raft
bench-raft: build ## replicated writes of three peers through their API, beside three etcd servers, in turn on one disk (JSON=FILE; etcd is built from its module)
	@cd bench/raft/etcd && $(GO) build -o ../../../bin/bench-etcd .
	@$(GO) build -o bin/bench-raft ./bench/raft
	@bin/bench-raft -bin bin -etcd $(CURDIR)/bin/bench-etcd $(if $(JSON),-json $(JSON))

.PHONY: bench-failover
bench-failover: build ## from a SIGKILL of the leader to the next write that is answered, twenty times, beside etcd (JSON=FILE)
	@cd bench/raft/etcd && $(GO) build -o ../../../bin/bench-etcd .
	@$(GO) build -o bin/bench-failover ./bench/failover
	@bin/bench-failover -bin bin -etcd $(CURDIR)/bin/bench-etcd $(if $(JSON),-json $(JSON))

.PHONY: bench-stores
bench-stores: ## stores for raft's log beside each other on one disk: raft-boltdb, raft-wal, Berth's own
	cd bench/raft/stores && $(GO) test -run '^$$' -bench . -benchtime 1500x

.PHONY: bench
bench: ## every benchmark once, as ratios side by side where there is something to compare with
	$(GO) test -run '^$$' -bench . -benchtime 200ms ./...

.PHONY: bench-prefix
bench-prefix: ## how well the router places prompts that begin alike, beside other policies, on a trace; JSON=FILE also writes it there
	@$(GO) run ./bench/prefix $(if $(JSON),-json $(JSON)) $(if $(TRACE),-trace $(TRACE))

.PHONY: bench-router
bench-router: ## what the router costs beside nginx, haproxy (where they are installed), ReverseProxy and a relay of bytes; JSON=FILE also writes it there
	@mkdir -p bin && $(GO) build -o bin/bench-router ./bench/router && bin/bench-router $(if $(JSON),-json $(JSON))

.PHONY: deps
deps: ## install what optional checks need: gcc, Node, npm (Debian's packages, as root), the packages of demo/llamacpp, and OpenAI's client for Node
	@command -v gcc >/dev/null || { apt-get update -q && apt-get install -qy gcc libc6-dev; }
	@command -v npm >/dev/null || { apt-get update -q && apt-get install -qy nodejs npm; }
	@test -d demo/llamacpp/node_modules || (cd demo/llamacpp && npm install --no-fund --no-audit)
	@test -d router/testdata/openai-node/node_modules || (cd router/testdata/openai-node && npm install --no-fund --no-audit)

.PHONY: bench-openb
bench-openb: ## how much of a real GPU cluster the planner fills, beside Random, BestFit and FGD (BERTH_DATA=DIR, TRACES=NAME|FILE,…, NODES=FILE, JSON=FILE)
	$(GO) run ./bench/openb $(if $(TRACES),-traces $(TRACES)) $(if $(NODES),-nodes $(NODES)) $(if $(JSON),-json $(JSON))

.PHONY: bench-scheduler
bench-scheduler: ## decisions a second and their growth with the fleet, beside kube-scheduler, whose first build takes minutes (JSON=FILE)
	$(GO) run ./bench/scheduler -kube bench/scheduler/kube $(if $(JSON),-json $(JSON))

.PHONY: bench-durable
bench-durable: build ## placements a second through three peers with synced logs, from a request until every peer shows them placed (JSON=FILE)
	@$(GO) build -o bin/bench-durable ./bench/durable
	@bin/bench-durable -bin bin $(if $(JSON),-json $(JSON))

.PHONY: golden
golden: ## rewrite the golden scripts and command lines; read the diff as prose
	$(GO) test ./fsm ./agent/engine/... -rewrite

.PHONY: fuzz
fuzz: ## thirty seconds of each fuzz target
	$(GO) test ./fsm -run '^$$' -fuzz FuzzDecode -fuzztime 30s
	$(GO) test ./fsm -run '^$$' -fuzz FuzzRestore -fuzztime 30s
	$(GO) test ./fsm -run '^$$' -fuzz FuzzStrict -fuzztime 30s
	$(GO) test ./consensus/wal -run '^$$' -fuzz FuzzOpen -fuzztime 30s
	$(GO) test ./fleet/wire -run '^$$' -fuzz FuzzQuick -fuzztime 30s
	$(GO) test ./router/openai -run '^$$' -fuzz FuzzScanner -fuzztime 30s
	$(GO) test ./router/openai -run '^$$' -fuzz FuzzPrompt -fuzztime 30s
	$(GO) test ./router -run '^$$' -fuzz FuzzConnection -fuzztime 30s
	$(GO) test ./internal/lane -run '^$$' -fuzz FuzzHead -fuzztime 30s
	$(GO) test ./router/upstream -run '^$$' -fuzz FuzzReply -fuzztime 30s

.PHONY: clean
clean: ## remove what was built
	rm -rf bin demo/llamacpp/node_modules router/testdata/openai-node/node_modules

.PHONY: bench-status
bench-status: ## how fast any peer answers status while the fleet changes, beside etcd, whose first build takes minutes (JSON=FILE)
	$(GO) run ./bench/status -etcd bench/status/etcd $(if $(JSON),-json $(JSON))
