//go:build linux

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// forward listens on this machine's loopback and has connections carried into the cluster
// until it is interrupted. A socket belongs to the network in which it was opened, also in the
// hands of a process that has moved to another: so we listen here, and relay dials there.
func (c ownCluster) forward(port, target string) error {
	if os.Geteuid() != 0 {
		return errNeedsRoot
	}
	first, up := c.running()
	if !up {
		return errNotUp
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return fmt.Errorf("port %s is taken or not a port: %w", port, err)
	}
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	// The copy, unlike the original, stays open in the program that takes our place.
	socket, err := syscall.Dup(int(file.Fd()))
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/ is %s\n", listener.Addr(), target)
	return replace(c.entering(first, []string{self, relayCommand, strconv.Itoa(socket), target}))
}

// relay carries every connection of an inherited listener to a target in the cluster.
func relay(socket, target string) error {
	fd, err := strconv.Atoi(socket)
	if err != nil {
		return err
	}
	listener, err := net.FileListener(os.NewFile(uintptr(fd), "listener"))
	if err != nil {
		return err
	}
	for {
		near, err := listener.Accept()
		if err != nil {
			return err
		}
		go carry(near, target)
	}
}

// carry copies both ways, each until its sender is done.
func carry(near net.Conn, target string) {
	defer near.Close()
	far, err := net.Dial("tcp", target)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		return
	}
	defer far.Close()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			// An error here is the end of a connection that either side has dropped.
			_, _ = io.Copy(way[0], way[1])
			_ = way[0].(*net.TCPConn).CloseWrite()
		})
	}
	both.Wait()
}
