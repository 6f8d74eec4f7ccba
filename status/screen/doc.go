// Package screen lays the status document out for a terminal: the whole fleet on one screen that is read in five seconds, at eighty columns as
// with two hundred nodes. It is pure text and must never know where a document comes from or what terminal it goes to; the width, the height and
// whether colours may be used are given to it, and nothing is said by colour alone.
package screen
