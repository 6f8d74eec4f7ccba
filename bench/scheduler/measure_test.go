package main

import "testing"

// A small run places everything, on no more nodes than are needed, and plans again for each replica more.
func TestMeasurePlacesEverything(t *testing.T) {
	s := measure(64, 40, 10)
	if s.Singles.Count != 40 || s.Gangs.Count != 10 || s.Used != s.Least || s.Least != 5 {
		t.Errorf("%+v", s)
	}
	if s.Again.Count != 200 || s.Again.P50 <= 0 || s.Singles.P99 < s.Singles.P50 {
		t.Errorf("%+v", s)
	}
}
