package lane

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// hangups learns from the kernel when clients end their connections (EPOLLRDHUP), so that a request whose client has gone
// is given up at once, without a reader for each connection that would cost a system call a request and a stack a stream.
type hangups struct {
	file *os.File // the epoll instance; Go's own poller waits for it
	raw  syscall.RawConn

	mu    sync.Mutex
	conns map[uint64]*conn
	next  uint64
}

func newHangups() (*hangups, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // says to os.NewFile that it can be waited for
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	h := &hangups{file: os.NewFile(uintptr(fd), "hangups"), conns: make(map[uint64]*conn)}
	if h.raw, err = h.file.SyscallConn(); err != nil {
		_ = h.file.Close()
		return nil, err
	}
	return h, nil
}

// add watches a connection. It is noticed once, also if it has ended already.
func (h *hangups) add(c *conn) bool {
	h.mu.Lock()
	h.next++
	c.number = h.next
	h.conns[c.number] = c
	h.mu.Unlock()
	event := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLET&0xffffffff, Fd: int32(c.number), Pad: int32(c.number >> 32)}
	if h.control(c, unix.EPOLL_CTL_ADD, &event) != nil {
		h.drop(c)
		return false
	}
	return true
}

// remove ends the watching, while the connection is still open.
func (h *hangups) remove(c *conn) {
	h.drop(c)
	_ = h.control(c, unix.EPOLL_CTL_DEL, nil) // one that is closed is gone already
}

func (h *hangups) drop(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c.number)
}

func (h *hangups) control(c *conn, op int, event *unix.EpollEvent) error {
	var err error
	outer := h.raw.Control(func(set uintptr) {
		inner := c.raw.Control(func(fd uintptr) { err = unix.EpollCtl(int(set), op, int(fd), event) })
		if inner != nil {
			err = inner
		}
	})
	if outer != nil {
		return outer
	}
	return err
}

// run tells connections of their ends, until close.
func (h *hangups) run() {
	events := make([]unix.EpollEvent, 64)
	_ = h.raw.Read(func(set uintptr) bool { // fails when the file is closed
		for {
			n, err := unix.EpollWait(int(set), events, 0)
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return true
			}
			for _, e := range events[:n] {
				h.tell(uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32)
			}
			if n < len(events) {
				return false
			}
		}
	})
}

func (h *hangups) tell(number uint64) {
	h.mu.Lock()
	c := h.conns[number]
	h.mu.Unlock()
	if c != nil {
		c.hungUp()
	}
}

func (h *hangups) close() { _ = h.file.Close() }
