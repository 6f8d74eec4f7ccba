//go:build !linux

package lane

import "errors"

type hangups struct{}

func newHangups() (*hangups, error) { return nil, errors.ErrUnsupported }

func (*hangups) add(*conn) bool { return false }
func (*hangups) remove(*conn)   {}
func (*hangups) run()           {}
func (*hangups) close()         {}
