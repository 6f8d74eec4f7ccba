//go:build unix

package main

import "golang.org/x/sys/unix"

func restrictUmask() { unix.Umask(0o077) }
