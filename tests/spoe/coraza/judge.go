package main

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
	"github.com/corazawaf/coraza/v3"
	"github.com/corazawaf/coraza/v3/types"
)

const directives = `
Include @coraza.conf-recommended
Include @crs-setup.conf.example
Include @owasp_crs/*.conf
SecRuleEngine On
SecResponseBodyAccess On
`

const (
	// Transactions that wait for the message of their response, and for how long.
	maxWaiting  = 10000
	waitingTime = 60 * time.Second
)

// request is a request to judge. The body is base64 in JSON.
type request struct {
	ID      string      `json:"id"`
	SrcIP   string      `json:"src-ip"`
	SrcPort int         `json:"src-port"`
	DstIP   string      `json:"dst-ip"`
	DstPort int         `json:"dst-port"`
	Method  string      `json:"method"`
	Path    string      `json:"path"`
	Query   string      `json:"query"`
	Version string      `json:"version"`
	Headers [][2]string `json:"headers"`
	Body    []byte      `json:"body"`
}

// response is a response to judge, after its request.
type response struct {
	ID      string
	Version string
	Status  int
	Headers [][2]string
	Body    []byte
}

// verdict is the decision of Coraza. All but the action is empty if it is `allow` without a rule.
type verdict struct {
	Action string `json:"action"`
	Status int    `json:"status"`
	RuleID int    `json:"ruleid"`
	Data   string `json:"data"`
}

func (v verdict) variables() []variable {
	found := []variable{{"action", v.Action}}
	if v.Action != "allow" {
		found = append(found, variable{"status", int64(v.Status)}, variable{"ruleid", int64(v.RuleID)}, variable{"data", v.Data})
	}
	return found
}

// waiting is a transaction between its request and its response.
type waiting struct {
	transaction types.Transaction
	since       time.Time
}

// judge judges requests and responses.
type judge struct {
	waf   coraza.WAF
	guard sync.Mutex
	held  map[string]waiting
}

// newJudge reads the core rule set and the directives of a file, if its name is not empty.
func newJudge(rules string) (*judge, error) {
	text := directives
	if rules != "" {
		more, err := os.ReadFile(rules)
		if err != nil {
			return nil, err
		}
		text += string(more)
	}
	waf, err := coraza.NewWAF(coraza.NewWAFConfig().WithRootFS(coreruleset.FS).WithDirectives(text))
	if err != nil {
		return nil, err
	}
	return &judge{waf: waf, held: map[string]waiting{}}, nil
}

// messages judges the messages of one frame. The last message decides.
func (j *judge) messages(messages []message) []variable {
	var found []variable
	for _, one := range messages {
		arguments := fields{values: one.arguments}
		var decided verdict
		var err error
		switch one.name {
		case "coraza-req":
			if read := arguments.request(); arguments.err == nil {
				decided, err = j.request(read)
			}
		case "coraza-res":
			if read := arguments.response(); arguments.err == nil {
				decided, err = j.response(read)
			}
		default:
			err = fmt.Errorf("unknown message %q", one.name)
		}
		if arguments.err != nil {
			err = arguments.err
		}
		if err != nil {
			found = append(found, variable{"error", err.Error()})
			continue
		}
		found = append(found, decided.variables()...)
	}
	return found
}

// request judges a request, and keeps its transaction for the response.
func (j *judge) request(r request) (verdict, error) {
	transaction := j.waf.NewTransactionWithID(r.ID)
	interruption, err := judgeRequest(transaction, r)
	if err != nil || interruption != nil || r.ID == "" || !j.keep(r.ID, transaction) {
		finish(transaction)
	}
	return decision(interruption), err
}

func judgeRequest(transaction types.Transaction, r request) (*types.Interruption, error) {
	transaction.ProcessConnection(r.SrcIP, r.SrcPort, r.DstIP, r.DstPort)
	uri := r.Path
	if r.Query != "" {
		uri += "?" + r.Query
	}
	transaction.ProcessURI(uri, r.Method, "HTTP/"+r.Version)
	for _, header := range r.Headers {
		transaction.AddRequestHeader(header[0], header[1])
		if strings.EqualFold(header[0], "host") {
			transaction.SetServerName(header[1])
		}
	}
	if found := transaction.ProcessRequestHeaders(); found != nil {
		return found, nil
	}
	if len(r.Body) > 0 {
		if found, _, err := transaction.WriteRequestBody(r.Body); found != nil || err != nil {
			return found, err
		}
	}
	return transaction.ProcessRequestBody()
}

// response judges the response of a request that was allowed.
func (j *judge) response(r response) (verdict, error) {
	j.guard.Lock()
	one, known := j.held[r.ID]
	delete(j.held, r.ID)
	j.guard.Unlock()
	if !known {
		return verdict{}, fmt.Errorf("unknown request %q", r.ID)
	}
	transaction := one.transaction
	defer finish(transaction)
	for _, header := range r.Headers {
		transaction.AddResponseHeader(header[0], header[1])
	}
	found := transaction.ProcessResponseHeaders(r.Status, "HTTP/"+r.Version)
	if found == nil && transaction.IsResponseBodyProcessable() && len(r.Body) > 0 {
		var err error
		if found, _, err = transaction.WriteResponseBody(r.Body); err != nil {
			return verdict{}, err
		}
	}
	if found == nil {
		var err error
		if found, err = transaction.ProcessResponseBody(); err != nil {
			return verdict{}, err
		}
	}
	return decision(found), nil
}

// keep holds a transaction for its response. It returns false if too many wait.
func (j *judge) keep(id string, transaction types.Transaction) bool {
	j.guard.Lock()
	defer j.guard.Unlock()
	if len(j.held) >= maxWaiting {
		for old, one := range j.held {
			if time.Since(one.since) > waitingTime {
				delete(j.held, old)
				finish(one.transaction)
			}
		}
	}
	if _, known := j.held[id]; known || len(j.held) >= maxWaiting {
		return false
	}
	j.held[id] = waiting{transaction, time.Now()}
	return true
}

func finish(transaction types.Transaction) {
	transaction.ProcessLogging()
	_ = transaction.Close()
}

func decision(interruption *types.Interruption) verdict {
	if interruption == nil {
		return verdict{Action: "allow"}
	}
	return verdict{interruption.Action, interruption.Status, interruption.RuleID, interruption.Data}
}

// fields reads the arguments of a message. `err` names the first one that is missing or of a wrong type.
type fields struct {
	values map[string]any
	err    error
}

func take[T any](f *fields, name string) (found T) {
	found, fits := f.values[name].(T)
	if !fits && f.err == nil {
		f.err = fmt.Errorf("argument %s: %T", name, f.values[name])
	}
	return found
}

// optional is for samples that are NULL without a value: an empty query or body.
func optional[T any](f *fields, name string) (found T) {
	if f.values[name] != nil {
		found = take[T](f, name)
	}
	return found
}

func (f *fields) request() request {
	return request{
		ID:    optional[string](f, "id"),
		SrcIP: take[netip.Addr](f, "src-ip").String(), SrcPort: int(take[int64](f, "src-port")),
		DstIP: take[netip.Addr](f, "dst-ip").String(), DstPort: int(take[int64](f, "dst-port")),
		Method: take[string](f, "method"), Path: take[string](f, "path"), Query: optional[string](f, "query"),
		Version: take[string](f, "version"), Headers: f.headers(), Body: optional[[]byte](f, "body"),
	}
}

func (f *fields) response() response {
	return response{ID: take[string](f, "id"), Version: take[string](f, "version"), Status: int(take[int64](f, "status")),
		Headers: f.headers(), Body: optional[[]byte](f, "body")}
}

// headers reads req.hdrs, lines of text, or req.hdrs_bin, names and values with their lengths up to two empty ones.
func (f *fields) headers() (found [][2]string) {
	switch value := f.values["headers"].(type) {
	case string:
		for _, line := range strings.Split(value, "\r\n") {
			if name, content, colon := strings.Cut(line, ":"); colon {
				found = append(found, [2]string{name, strings.TrimSpace(content)})
			}
		}
	case []byte:
		for r := (&reader{rest: value}); len(r.rest) > 0; {
			name, content := r.text(), r.text()
			if r.err != nil {
				f.err = r.err
			}
			if name != "" {
				found = append(found, [2]string{name, content})
			}
		}
	default:
		f.err = fmt.Errorf("argument headers: %T", value)
	}
	return found
}
