package admin

import (
	"testing"

	"berth/fleet"
	"berth/fleet/wire"
)

// What a first attempt has done must not be held against its repeat: the answer is the first one, and not that there is nothing there.
func TestARepeatedDeletionGetsItsFirstAnswer(t *testing.T) {
	api := newPeer(t).api(nil)
	if w := call(api, "PUT", "/api/v1/models/m", spec("m")); w.Code != 200 {
		t.Fatalf("apply: %s", w.Body)
	}
	first := call(api, "DELETE", "/api/v1/models/m", "", wire.HeaderRequestID, "once")
	again := call(api, "DELETE", "/api/v1/models/m", "", wire.HeaderRequestID, "once")
	if first.Code != 200 || again.Code != 200 || first.Body.String() != again.Body.String() {
		t.Errorf("first %d %s, then %d %s", first.Code, first.Body, again.Code, again.Body)
	}
	for _, path := range []string{"models/m", "nodes/gpu-9"} {
		if w := call(api, "DELETE", "/api/v1/"+path, ""); codeOf(t, w) != fleet.NotFound {
			t.Errorf("deleting %s, which is not there: %s", path, w.Body)
		}
	}
}

// A peer that died before it announced itself has no row to be forgotten; its removal is done all the same.
func TestAPeerThatNeverAnnouncedItselfIsRemoved(t *testing.T) {
	api := newPeer(t).api(nil)
	if w := call(api, "DELETE", "/api/v1/peers/peer-3", ""); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
