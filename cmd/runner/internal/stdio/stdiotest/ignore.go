package stdiotest

import (
	"os/signal"
	"syscall"
)

func ignore() { signal.Ignore(syscall.SIGTERM) }
