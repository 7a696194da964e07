package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
)

// Frames (SPOE.txt 1.2, section 3.2.2).
const (
	haproxyHello      = 1
	haproxyDisconnect = 2
	notify            = 3
	agentHello        = 101
	agentDisconnect   = 102
	ack               = 103
)

// Types of data (3.1).
const (
	typeNull = iota
	typeBool
	typeInt32
	typeUint32
	typeInt64
	typeUint64
	typeIPv4
	typeIPv6
	typeString
	typeBinary
)

const (
	flagFin      = 1
	setVar       = 1
	scopeTxn     = 2
	maxFrame     = 1 << 20
	minFrame     = 256
	statusNormal = 0
	// Requests of one connection that are judged at once.
	maxAtOnce = 32
)

var (
	errShort    = errors.New("the frame ends too early")
	errFragment = errors.New("fragments are not supported")
)

// message is one message of a NOTIFY. A value is nil, a bool, an int64, a netip.Addr, a string or a []byte.
type message struct {
	name      string
	arguments map[string]any
}

// variable is a value for a variable of the transaction: a string or an int64.
type variable struct {
	name  string
	value any
}

// reader takes values from the front of a frame. After the first error all values are zero.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.rest = nil
}

func (r *reader) bytes(count uint64) []byte {
	if count > uint64(len(r.rest)) {
		r.fail(errShort)
		return nil
	}
	taken := r.rest[:count]
	r.rest = r.rest[count:]
	return taken
}

func (r *reader) byte() byte {
	if taken := r.bytes(1); taken != nil {
		return taken[0]
	}
	return 0
}

// varint reads an integer as peers encode it (3.1).
func (r *reader) varint() uint64 {
	value := uint64(r.byte())
	if value < 240 {
		return value
	}
	for shift := 4; shift < 64; shift += 7 {
		next := r.byte()
		value += uint64(next) << shift
		if next < 128 {
			return value
		}
	}
	r.fail(errors.New("an integer is too long"))
	return 0
}

func (r *reader) text() string {
	return string(r.bytes(r.varint()))
}

// data reads a typed value.
func (r *reader) data() any {
	kind := r.byte()
	switch kind & 15 {
	case typeNull:
		return nil
	case typeBool:
		return kind&16 != 0
	case typeInt32, typeUint32, typeInt64, typeUint64:
		return int64(r.varint())
	case typeIPv4, typeIPv6:
		size := uint64(4)
		if kind&15 == typeIPv6 {
			size = 16
		}
		address, _ := netip.AddrFromSlice(r.bytes(size))
		return address
	case typeString:
		return r.text()
	case typeBinary:
		return append([]byte{}, r.bytes(r.varint())...)
	default:
		r.fail(fmt.Errorf("unknown type %d", kind&15))
		return nil
	}
}

// pairs reads names with values up to the end of the frame.
func (r *reader) pairs() map[string]any {
	found := map[string]any{}
	for len(r.rest) > 0 {
		name := r.text()
		found[name] = r.data()
	}
	return found
}

// messages reads the payload of a NOTIFY.
func (r *reader) messages() []message {
	var found []message
	for len(r.rest) > 0 {
		one := message{r.text(), map[string]any{}}
		for count := r.byte(); count > 0 && r.err == nil; count-- {
			name := r.text()
			one.arguments[name] = r.data()
		}
		found = append(found, one)
	}
	return found
}

func appendVarint(to []byte, value uint64) []byte {
	if value < 240 {
		return append(to, byte(value))
	}
	to = append(to, byte(value)|240)
	for value = (value - 240) >> 4; value >= 128; value = (value - 128) >> 7 {
		to = append(to, byte(value)|128)
	}
	return append(to, byte(value))
}

func appendText(to []byte, text string) []byte {
	return append(appendVarint(to, uint64(len(text))), text...)
}

// appendData appends a string or an int64.
func appendData(to []byte, value any) []byte {
	switch value := value.(type) {
	case string:
		return appendText(append(to, typeString), value)
	case int64:
		return appendVarint(append(to, typeInt64), uint64(value))
	default:
		return append(to, typeNull)
	}
}

// session is one connection of the proxy.
type session struct {
	connection net.Conn
	reader     *bufio.Reader
	// handle makes the variables for the messages of one NOTIFY. Several may run at once.
	handle  func([]message) []variable
	limit   uint32
	writing sync.Mutex
	running chan struct{}
}

func newSession(connection net.Conn, handle func([]message) []variable) *session {
	return &session{connection: connection, reader: bufio.NewReaderSize(connection, 1<<16), handle: handle, limit: maxFrame,
		running: make(chan struct{}, maxAtOnce)}
}

// run reads frames until the connection ends.
func (s *session) run() error {
	for {
		frame, err := s.read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if over, err := s.take(frame); err != nil || over {
			return err
		}
	}
}

func (s *session) read() ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(s.reader, length[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(length[:])
	if size > s.limit {
		return nil, fmt.Errorf("a frame of %d bytes, %d allowed", size, s.limit)
	}
	frame := make([]byte, size)
	_, err := io.ReadFull(s.reader, frame)
	return frame, err
}

// take handles one frame. It returns true at the end of the session.
func (s *session) take(frame []byte) (bool, error) {
	r := &reader{rest: frame}
	kind, flags := r.byte(), r.bytes(4)
	stream, number := r.varint(), r.varint()
	if r.err != nil {
		return true, r.err
	}
	if flags[3]&flagFin == 0 {
		return true, errFragment
	}
	switch kind {
	case haproxyHello:
		return s.hello(r.pairs(), r)
	case haproxyDisconnect:
		return true, s.write(agentDisconnect, 0, 0, disconnection(statusNormal, "bye"))
	case notify:
		messages := r.messages()
		if r.err != nil {
			return true, r.err
		}
		s.running <- struct{}{}
		go func() {
			defer func() { <-s.running }()
			var actions []byte
			for _, one := range s.handle(messages) {
				actions = appendData(appendText(append(actions, setVar, 3, scopeTxn), one.name), one.value)
			}
			// The reader sees a connection that is broken.
			_ = s.write(ack, stream, number, actions)
		}()
	}
	// Unknown frames are skipped.
	return false, nil
}

func (s *session) hello(items map[string]any, r *reader) (bool, error) {
	if r.err != nil {
		return true, r.err
	}
	versions, _ := items["supported-versions"].(string)
	if !strings.Contains(versions, "2.0") {
		return true, s.write(agentDisconnect, 0, 0, disconnection(8, "unsupported version"))
	}
	offered, _ := items["max-frame-size"].(int64)
	if offered < minFrame {
		return true, s.write(agentDisconnect, 0, 0, disconnection(9, "max-frame-size too big or too small"))
	}
	s.limit = uint32(min(offered, maxFrame))
	var reply []byte
	reply = appendData(appendText(reply, "version"), "2.0")
	reply = appendVarint(append(appendText(reply, "max-frame-size"), typeUint32), uint64(s.limit))
	reply = appendData(appendText(reply, "capabilities"), "pipelining")
	check, _ := items["healthcheck"].(bool)
	return check, s.write(agentHello, 0, 0, reply)
}

func disconnection(status uint64, text string) []byte {
	payload := appendVarint(append(appendText(nil, "status-code"), typeUint32), status)
	return appendData(appendText(payload, "message"), text)
}

func (s *session) write(kind byte, stream, number uint64, payload []byte) error {
	frame := append(make([]byte, 4, 32+len(payload)), kind, 0, 0, 0, flagFin)
	frame = append(appendVarint(appendVarint(frame, stream), number), payload...)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.connection.Write(frame)
	return err
}
