// Command testrun runs go test, and ends with a summary: how many tests passed, which failed, which
// were inconclusive, and which did not run, each with the reason.
//
//	go run ./internal/testrun -without 'the race detector: make check' -- -shuffle=on ./...
//
// The arguments after "--" go to go test, whose exit status testrun returns.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"time"
)

func main() {
	status, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		status = max(status, 1)
	}
	os.Exit(status)
}

// run runs the tests, and returns the exit status of go test.
func run(args []string) (status int, err error) {
	flags := flag.NewFlagSet("testrun", flag.ExitOnError)
	var without []string
	flags.Func("without", "say in the summary that this was left out; may be repeated", func(what string) error {
		without = append(without, what)
		return nil
	})
	file := flags.String("summary", "", "append the summary to this file, too")
	if err := flags.Parse(args); err != nil {
		return 1, err
	}
	// A terminal interrupts go test as well. The summary then counts the tests until then.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	began := time.Now()
	results := newResults(os.Stdout)
	status, err = goTest(flags.Args(), results)
	results.finish()
	text := results.summary(time.Since(began), without)
	fmt.Print("\n", text)
	if *file == "" {
		return status, err
	}
	return status, errors.Join(err, appendTo(*file, text))
}

// goTest runs go test, and reads its events.
func goTest(args []string, results *results) (status int, err error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	reading := read(output, results)
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), reading
	}
	return 0, errors.Join(reading, err)
}

// read takes in events until the output ends. After an event that it does not understand it only
// drains the output, so that go test can end.
func read(output io.Reader, results *results) error {
	events := json.NewDecoder(output)
	for {
		var e event
		switch err := events.Decode(&e); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			_, _ = io.Copy(io.Discard, output)
			return fmt.Errorf("reading the events of go test: %w", err)
		}
		results.take(e)
	}
}

// appendTo adds text to a file.
func appendTo(name, text string) error {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
