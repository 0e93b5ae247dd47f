//go:build unix && !linux

package main

import "syscall"

// signalOnDeath does nothing: there is no such signal here.
func signalOnDeath(*syscall.SysProcAttr) {}
