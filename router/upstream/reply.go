package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"berth/internal/plain"
)

// plainAnswer reads the head of an answer that is plain: whole in what was read, strictly valid, of a stated length or in
// chunks. It returns nil for any other, and has then taken nothing.
func plainAnswer(in *plain.Reader) (*http.Response, *reply) {
	b := in.Bytes()
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 || !bytes.HasPrefix(b, []byte("HTTP/1.1 ")) {
		return nil, nil
	}
	line, rest, _ := strings.Cut(string(b[:end]), "\r\n")
	status := line[len("HTTP/1.1 "):]
	code, err := strconv.Atoi(status[:min(3, len(status))])
	if err != nil || code < 200 || code > 599 || code == http.StatusNoContent || code == http.StatusNotModified || len(status) > 3 && status[3] != ' ' || !plain.All(status, plain.Value) {
		return nil, nil
	}
	h := plain.Header(rest)
	last, ok := plain.Close(h["Connection"])
	if h == nil || !ok || h["Trailer"] != nil || h["Pragma"] != nil { // the latter net/http translates
		return nil, nil
	}
	if last {
		delete(h, "Connection")
	}
	resp := &http.Response{Status: status, StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h, Close: last} // no Request: a stream would hold it for minutes
	body := &reply{in: in, resp: resp}
	switch lengths, codings := h["Content-Length"], h["Transfer-Encoding"]; {
	case codings == nil:
		resp.ContentLength = plain.Length(lengths)
		if body.left = resp.ContentLength; body.left < 0 {
			return nil, nil
		}
	case lengths == nil && len(codings) == 1 && codings[0] == "chunked":
		delete(h, "Transfer-Encoding")
		resp.ContentLength, resp.TransferEncoding, body.chunked = -1, codings, true
	default:
		return nil, nil
	}
	in.Take(end + 4)
	return resp, body
}

// reply is the body of a plain answer. It holds a buffer only while there are bytes in it.
type reply struct {
	in      *plain.Reader
	resp    *http.Response
	chunked bool
	left    int64 // of the body, or of the chunk
	step    step
	given   int    // bytes at the begin of the reader's that the last Next has given, and framing behind them
	rest    []byte // of the last Next, not read yet by Read
	err     error
}

// step is where in the framing of chunks the reader is.
type step int

const (
	atSize step = iota
	inData
	atDataEnd
	atTrailer
)

// maxLine is the most bytes of a line that gives a chunk's size, as in net/http.
const maxLine = 4096

var errChunk = errors.New("the answer's chunks are not well formed")

// Next waits for bytes of the body and returns all that have come. They stay good until the next call. io.EOF is the end.
func (b *reply) Next() ([]byte, error) {
	if b.in.Take(b.given); b.given > 0 {
		b.given = 0
	}
	for b.err == nil {
		if !b.chunked && b.left == 0 {
			b.err = io.EOF
			break
		}
		if b.in.Buffered() > 0 {
			p, err := b.decode(b.in.Bytes())
			if b.err = err; len(p) > 0 {
				return p, nil
			}
			if err != nil {
				break
			}
			b.in.Take(b.given)
			b.given = 0
		}
		if err := b.in.Fill(); err != nil {
			b.err = err
			if err == io.EOF {
				b.err = io.ErrUnexpectedEOF
			}
		}
	}
	return nil, b.err
}

// decode moves the body's bytes together at the begin of p and returns them; given counts what is done with.
func (b *reply) decode(p []byte) ([]byte, error) {
	if !b.chunked {
		n := int(min(int64(len(p)), b.left))
		b.left -= int64(n)
		b.given = n
		return p[:n], nil
	}
	to, at := 0, 0
	for at < len(p) {
		n, moved, err := b.unframe(p[at:], p[to:])
		to += moved
		if at += n; err != nil || n == 0 {
			b.given = at
			return p[:to], err
		}
	}
	b.given = at
	return p[:to], nil
}

// unframe takes one step and returns how many bytes it took, none if the step needs more, and how many it moved to out.
func (b *reply) unframe(p, out []byte) (n, moved int, err error) {
	switch b.step {
	case atSize:
		line, rest, found := bytes.Cut(p, []byte("\n"))
		if !found {
			if len(p) > maxLine {
				err = errChunk
			}
			return 0, 0, err
		}
		if b.left, err = chunkSize(line); err != nil {
			return 0, 0, err
		}
		if b.step = inData; b.left == 0 {
			b.step = atTrailer
		}
		return len(p) - len(rest), 0, nil
	case inData:
		n = copy(out, p[:min(int64(len(p)), b.left)])
		if b.left -= int64(n); b.left == 0 {
			b.step = atDataEnd
		}
		return n, n, nil
	case atDataEnd:
		if len(p) < 2 {
			return 0, 0, nil
		}
		if p[0] != '\r' || p[1] != '\n' {
			return 0, 0, errChunk
		}
		b.step = atSize
		return 2, 0, nil
	}
	return b.trailer(p)
}

// chunkSize reads the line of a chunk's size: hexadecimal digits, and perhaps an extension, which means nothing.
func chunkSize(line []byte) (int64, error) {
	line, ok := bytes.CutSuffix(line, []byte("\r"))
	digits, _, _ := bytes.Cut(line, []byte(";"))
	digits = bytes.TrimRight(digits, " \t")
	if !ok || len(digits) == 0 || len(digits) > 15 {
		return 0, errChunk
	}
	n := int64(0)
	for _, c := range digits {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, errChunk
		}
		n = n<<4 | int64(c)
	}
	return n, nil
}

// trailer reads what follows the last chunk.
func (b *reply) trailer(p []byte) (n, moved int, err error) {
	if bytes.HasPrefix(p, []byte("\r\n")) {
		return 2, 0, io.EOF
	}
	end := bytes.Index(p, []byte("\r\n\r\n"))
	if end < 0 {
		return 0, 0, nil // a room's worth at most
	}
	lines, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(p[:end+4]))).ReadMIMEHeader()
	if err != nil {
		return 0, 0, errChunk
	}
	b.resp.Trailer = http.Header(lines)
	return end + 4, 0, io.EOF
}

// Read implements io.Reader, for who wants no buffer of this side's.
func (b *reply) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		var err error
		if b.rest, err = b.Next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (b *reply) Close() error { return nil }
