package engine

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"text/template"

	"berth/agent"
	"berth/agent/shim"
)

// command runs any program that serves OpenAI's routes and GET /health. Its arguments, which only the node's configuration gives, are templates
// over Fields.
func command() kind {
	return kind{name: "command", launch: launchCommand}
}

// eachName is an argument that stands for one argument for each name of the model, as engines take them that check what clients send.
const eachName = "{{.Names}}"

// Fields is what the arguments of the command driver may use, as {{.Port}}.
type Fields struct {
	Port                int    // where the program must listen, on 127.0.0.1
	Model, Weights      string // the name that clients send; the weights, resolved
	Names               string // Model and its aliases, with commas; an argument that is {{.Names}} and nothing else becomes one argument for each
	GPUs                string // indices, "0,1"
	Rank, Nodes         int
	Master              string // host:port where the ranks meet; empty on one node
	MasterHost          string
	MasterPort          string
	BindHost            string
	APIKey              string // a key made for this start, which the door sends
	Share               string // "0.25" of the card for a replica that shares one
	Generation, Replica string
}

func launchCommand(in agent.LaunchInput, cmd []string) (shim.Program, shim.Recipe, error) {
	host, port := "", ""
	if multi(in) {
		var err error
		if host, port, err = net.SplitHostPort(in.Master); err != nil {
			return shim.Program{}, shim.Recipe{}, err
		}
	}
	env := cuda(in)
	f := Fields{
		Port: in.Port, Model: in.Order.Spec.Name, Names: strings.Join(names(in), ","), Weights: in.Weights, GPUs: strings.TrimPrefix(env[1], "CUDA_VISIBLE_DEVICES="),
		Rank: in.Order.Rank, Nodes: len(in.Hosts), Master: in.Master, MasterHost: host, MasterPort: port, BindHost: in.BindHost,
		APIKey: shim.PlaceAPIKey, Share: strconv.FormatFloat(shareOf(in), 'f', -1, 64),
		Generation: strconv.FormatUint(in.Order.Generation, 10), Replica: in.Order.Replica,
	}
	args := make([]string, 0, len(cmd)+len(in.Order.Spec.Engine.Args))
	for _, text := range cmd {
		if text == eachName {
			args = append(args, names(in)...)
			continue
		}
		arg, err := fill(text, f)
		if err != nil {
			return shim.Program{}, shim.Recipe{}, err
		}
		args = append(args, arg)
	}
	p := shim.Program{Args: append(args, in.Order.Spec.Engine.Args...), Env: env}
	if !headless(in) {
		p.Engine = local(in)
	}
	return p, recipe(in, false), nil
}

func fill(text string, f Fields) (string, error) {
	t, err := template.New("argument").Option("missingkey=error").Parse(text)
	if err != nil {
		return "", fmt.Errorf("engines.command: %q is not a template: %w", text, err)
	}
	var out strings.Builder
	if err := t.Execute(&out, f); err != nil {
		return "", fmt.Errorf("engines.command: %q: %w", text, err)
	}
	return out.String(), nil
}

// checkTemplates finds a wrong template when the agent starts, not when a model does.
func checkTemplates(k kind, cmd []string) error {
	if k.name != "command" {
		return nil
	}
	for _, text := range cmd {
		if _, err := fill(text, Fields{}); err != nil {
			return err
		}
	}
	return nil
}

func mentions(cmd []string, field string) bool {
	return strings.Contains(strings.Join(cmd, " "), "."+field)
}
