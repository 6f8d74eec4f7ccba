package prefix

import (
	"encoding/binary"
	"math/bits"
)

// BlockSize is the number of bytes in a block: about 128 tokens of English, eight blocks of vLLM's.
const BlockSize = 512

// The multipliers are of wyhash (Wang Yi, public domain): odd, with half of their bits set.
const (
	k0 = 0xa0761d6478bd642f
	k1 = 0xe7037ed1a0b428db
	k2 = 0x8ebc6af09c88c6e3
	k3 = 0x589965cc75374cc3
)

// Sum hashes bytes on top of another hash. It is the same in every process, so that routers that share nothing come to
// equal answers; it withstands accidents, not an adversary, who could win nothing but a bad place for a request of their
// own.
func Sum(seed uint64, p []byte) uint64 {
	a, b := seed^k0, uint64(len(p))*k1
	for len(p) >= 32 {
		a = mix(binary.LittleEndian.Uint64(p)^k1, binary.LittleEndian.Uint64(p[8:])^a)
		b = mix(binary.LittleEndian.Uint64(p[16:])^k2, binary.LittleEndian.Uint64(p[24:])^b)
		p = p[32:]
	}
	for len(p) >= 8 {
		a = mix(binary.LittleEndian.Uint64(p)^k3, a)
		p = p[8:]
	}
	if len(p) > 0 {
		var last [8]byte
		copy(last[:], p)
		b = mix(binary.LittleEndian.Uint64(last[:])^k1, b)
	}
	return mix(a^k2, b^k3)
}

// Text is Sum for a string.
func Text(seed uint64, s string) uint64 { return Sum(seed, []byte(s)) }

// Mix brings two hashes together.
func Mix(a, b uint64) uint64 { return mix(a^k0, b^k1) }

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// Chain appends the hash of each whole block of text, each over all that is before it, seed included.
func Chain(to []uint64, seed uint64, text []byte) []uint64 {
	for h := seed; len(text) >= BlockSize; text = text[BlockSize:] {
		h = Sum(h, text[:BlockSize])
		to = append(to, h)
	}
	return to
}
