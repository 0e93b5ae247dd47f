//go:build unix && !linux

package main

import "syscall"

// signalOnDeath does nothing: there is no such signal here.
func signalOnDeath(*syscall.SysProcAttr) {}

// adopt does nothing: orphans go to init here, which reaps them.
func adopt(bool) {}

func reap(int) {}
