// A WAF for tests: an agent of SPOP around Coraza with its core rule set.
//
//	coraza -listen 127.0.0.1:9000 [-rules FILE]     serves SPOP; prints "ready" once it listens
//	coraza -alone [-rules FILE] < requests.json     judges a list of requests without SPOP and prints the list of verdicts
//
// FILE has directives of Coraza for the end of the core rule set.
//
// The agent understands two messages. `coraza-req` has the arguments id, src-ip, src-port, dst-ip, dst-port, method, path, query, version,
// headers and body; `coraza-res` has id, version, status, headers and body. Headers are req.hdrs or req.hdrs_bin. The answer sets variables of
// the transaction: `action` (allow, deny, drop or redirect), and for all but allow `status`, `ruleid` and `data` (the target of a redirect).
// A message that cannot be judged sets `error` and no action.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
)

func main() {
	listen := flag.String("listen", "", "address of the agent")
	alone := flag.Bool("alone", false, "judge the JSON list of requests on standard input")
	rules := flag.String("rules", "", "file with further directives")
	flag.Parse()
	waf, err := newJudge(*rules)
	if err != nil {
		log.Fatal(err)
	}
	if *alone {
		err = judgeAll(waf)
	} else {
		err = serve(waf, *listen)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// judgeAll reads requests from standard input and writes their verdicts to standard output.
func judgeAll(waf *judge) error {
	var requests []request
	if err := json.NewDecoder(os.Stdin).Decode(&requests); err != nil {
		return err
	}
	verdicts := make([]verdict, 0, len(requests))
	for _, one := range requests {
		found, err := waf.request(one)
		if err != nil {
			return err
		}
		verdicts = append(verdicts, found)
	}
	return json.NewEncoder(os.Stdout).Encode(verdicts)
}

// serve accepts connections until the listener fails.
func serve(waf *judge, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer connection.Close()
			session := newSession(connection, waf.messages)
			if err := session.run(); err != nil {
				log.Printf("%s: %v", connection.RemoteAddr(), err)
			}
		}()
	}
}
