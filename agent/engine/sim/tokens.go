package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
)

// maxPiece is the longest token, in bytes: about what real vocabularies average
// on English text.
const maxPiece = 4

// Tokenize cuts text into pieces of at most four bytes: a run of letters and
// digits, with the one blank before it, is cut every four bytes; everything else
// likewise. A token's number is its length and its bytes (length<<32 | bytes, big
// endian), so no vocabulary is needed and [Detokenize] is exact for any bytes.
func Tokenize(text string) []int64 {
	out := make([]int64, 0, len(text)/3+1)
	for i := 0; i < len(text); {
		n := pieceLen(text[i:])
		out = append(out, number(text[i:i+n]))
		i += n
	}
	return out
}

// pieceLen is the length of the first piece of s, which is not empty.
func pieceLen(s string) int {
	word := isWord(s[0]) || s[0] == ' ' && len(s) > 1 && isWord(s[1])
	n := 1
	for n < len(s) && n < maxPiece && isWord(s[n]) == word && s[n] != ' ' {
		n++
	}
	return n
}

func isWord(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b >= 0x80
}

func number(piece string) int64 {
	var v int64
	for i := range len(piece) {
		v = v<<8 | int64(piece[i])
	}
	return int64(len(piece))<<32 | v
}

// Detokenize is the inverse of [Tokenize]. A number that no text has is an error.
func Detokenize(tokens []int64) (string, error) {
	var b strings.Builder
	for i, t := range tokens {
		n := t >> 32
		if n < 1 || n > maxPiece || (t&0xffffffff)>>(8*n) != 0 {
			return "", fmt.Errorf("token %d at position %d is not of this vocabulary", t, i)
		}
		for shift := 8 * (n - 1); shift >= 0; shift -= 8 {
			b.WriteByte(byte(t >> shift))
		}
	}
	return b.String(), nil
}

// Message is one turn of a chat as [RenderChat] sees it.
type Message struct{ Role, Content string }

// RenderChat is the simulated engine's chat template: the prompt that the
// messages become. A conversation's next turn starts with the whole of the last
// one, answer included, so that the prefix cache sees what a real one would.
func RenderChat(messages []Message) string {
	var b strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&b, "<|%s|>\n%s\n", m.Role, m.Content)
	}
	b.WriteString("<|assistant|>\n")
	return b.String()
}

// PromptHash names a prompt in [Record]: the first 16 hex digits of its SHA-256.
func PromptHash(prompt string) string {
	sum := sha256.Sum256([]byte(prompt))
	return hex.EncodeToString(sum[:8])
}

// vocabulary is what answers are made of: each word with its blank is one token.
var vocabulary = [...]string{
	"the", "of", "and", "to", "in", "is", "it", "on", "for", "as", "by", "at",
	"be", "or", "an", "we", "can", "not", "but", "all", "so", "one", "up", "out",
	"if", "now", "new", "way", "may", "day", "its", "use",
}

// babble yields an endless deterministic text, one token at a time.
type babble struct {
	state uint64
	begun bool
}

func newBabble(prompt []int64) *babble {
	h := fnv.New64a()
	for _, t := range prompt {
		h.Write([]byte{byte(t >> 32), byte(t >> 24), byte(t >> 16), byte(t >> 8), byte(t)})
	}
	return &babble{state: h.Sum64()}
}

func (b *babble) next() string {
	word := vocabulary[b.random()%uint64(len(vocabulary))]
	if !b.begun {
		b.begun = true
		return word
	}
	return " " + word
}

// random is splitmix64 (Steele, Lea, Flood 2014): the same on every machine, and
// its state is a single word.
func (b *babble) random() uint64 {
	b.state += 0x9e3779b97f4a7c15
	z := b.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

var errNoPrompt = errors.New("the prompt is empty")
