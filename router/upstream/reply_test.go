package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"testing"

	"berth/internal/plain"
)

// script is a connection on which bytes come in pieces.
type script struct {
	net.Conn
	pieces [][]byte
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.pieces[0])
	if s.pieces[0] = s.pieces[0][n:]; len(s.pieces[0]) == 0 {
		s.pieces = s.pieces[1:]
	}
	return n, nil
}

// FuzzReply holds how plain answers are read, however they are cut into pieces, against net/http: the same status, header,
// body and trailers, and the same word on whether it is whole.
func FuzzReply(f *testing.F) {
	ok := "HTTP/1.1 200 OK\r\n"
	for _, text := range []string{
		ok + "Content-Length: 5\r\n\r\nhello",
		ok + "Content-Length: 9\r\nConnection: close\r\n\r\nhello",
		ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\n\r\n",
		ok + "Transfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n00\r\nX-Usage: 7\r\n\r\n",
		ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n",
		ok + "Transfer-Encoding: chunked\r\n\r\n-1\r\nhello\r\n0\r\n\r\n",
		ok + "Transfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n",
		ok + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n",
	} {
		f.Add([]byte(text), uint8(1))
		f.Add([]byte(text), uint8(7))
	}
	f.Fuzz(func(t *testing.T, text []byte, cut uint8) {
		end := bytes.Index(text, []byte("\r\n\r\n"))
		if end < 0 || end+4 > len(plain.Room{}) {
			return
		}
		c := &script{pieces: [][]byte{text[:end+4]}}
		for part := range slices.Chunk(text[end+4:], int(cut)+1) {
			c.pieces = append(c.pieces, part)
		}
		in := plain.NewReader(c)
		if in.Fill() != nil {
			return
		}
		r := &http.Request{Method: http.MethodPost}
		resp, body := plainAnswer(in)
		if resp == nil {
			return
		}
		want, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), r)
		if err != nil {
			t.Fatalf("%q is plain here and nothing for net/http: %v", text, err)
		}
		if resp.StatusCode != want.StatusCode || resp.ContentLength != want.ContentLength || resp.Close != want.Close || !maps.EqualFunc(resp.Header, want.Header, slices.Equal) {
			t.Fatalf("%q: here %+v, for net/http %+v", text, resp, want)
		}
		got, gotErr := io.ReadAll(body)
		all, wantErr := io.ReadAll(want.Body)
		if gotErr != nil && wantErr == nil && errors.Is(gotErr, errChunk) {
			return // stricter is fine: the answer is broken off
		}
		if (gotErr == nil) != (wantErr == nil) || wantErr == nil && !bytes.Equal(got, all) || !bytes.HasPrefix(all, got) && !bytes.HasPrefix(got, all) {
			t.Fatalf("%q: %q %v here, for net/http %q %v", text, got, gotErr, all, wantErr)
		}
		if gotErr == nil && !maps.EqualFunc(resp.Trailer, want.Trailer, slices.Equal) {
			t.Fatalf("%q: trailers %v here, for net/http %v", text, resp.Trailer, want.Trailer)
		}
	})
}
