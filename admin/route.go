package admin

import (
	"net/http"
	"strings"

	"berth/fleet/wire"
)

// where says which peer answers a route.
type where int

const (
	anyPeer  where = iota // this one, at once
	caughtUp              // this one, once its state machine has caught up: orders and tables, which carry their own index
	asAsked               // the leader, unless ?consistency=stale asks for this one
	nearest               // this one, as long as it hears what the leader observes; the answer says how old both are
	atLeader              // the leader: writes, and what only its memory knows
)

// access names what a caller needs to be. Until there are tokens everybody who reaches the listener has every access; authorize is the one place
// that will change.
type access int

const (
	read access = iota
	write
	asAgent
	asRouter
	asPeer
)

// route is one row of the API's table. Exactly one of handle and raw is set; before, where it is set, is called first, and then it is decided which
// peer answers.
type route struct {
	method string
	path   string // below the prefix, unless it starts with a slash; {name} matches one escaped segment, {model} the rest
	access access
	where  where
	stream bool // the body has no small limit and the call no deadline
	does   string
	before func(*Server, *request) error
	handle func(*Server, *request) (any, error)
	raw    func(*Server, http.ResponseWriter, *request) error
}

func (r route) template() string {
	path := r.path
	if !strings.HasPrefix(path, "/") {
		path = wire.Prefix + "/" + path
	}
	return strings.ReplaceAll(path, "{model}", "{model:.+}")
}

func (r route) name() string { return r.method + " " + r.path }

// routes is the whole API, in the order in which it is matched: more special paths first.
func routes() []route {
	var all []route
	for _, part := range [][]route{statusRoutes(), modelRoutes(), rolloutRoutes(), replicaRoutes(), nodeRoutes(), memberRoutes(), settingRoutes(), agentRoutes(), routerRoutes()} {
		all = append(all, part...)
	}
	return all
}

// authorize decides whether the caller may use the route. It hangs on the matched route and never on the path's text.
func (s *Server) authorize(rt route, r *http.Request) error {
	_ = rt.access // tokens and certificates will be compared with it here
	_ = r
	return nil
}
