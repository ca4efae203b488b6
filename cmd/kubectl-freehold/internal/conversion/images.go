package conversion

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/freehold-dev/freehold/apis/printable"
)

// Image is what the config of an image says, for one platform.
type Image struct {
	// Digest names the config's image.
	Digest string
	// Entrypoint and Command are what runs where nobody says otherwise.
	Entrypoint, Command []string
	// Env are NAME=VALUE.
	Env []string
	// User is a number or a name, with a group behind a colon or without, and empty for root.
	User string
	// Ports are the TCP ports that the image says it listens on, sorted.
	Ports []int32
}

// Images reads the config of an image, by its name. Run asks once for each name, and for several at once.
type Images func(ctx context.Context, image string) (Image, error)

// asks is how many images are asked for at a time.
const asks = 8

// images completes the servers of a run by what their images say.
func (r run) images(ctx context.Context, read Images) {
	type answer struct {
		Image
		err error
	}
	found := map[string]*answer{}
	asking := errgroup.Group{}
	asking.SetLimit(asks)
	for _, c := range r {
		name := c.image()
		if read == nil || name == "" || found[name] != nil {
			continue
		}
		into := &answer{}
		found[name] = into
		asking.Go(func() error {
			into.Image, into.err = read(ctx, name)
			return nil
		})
	}
	_ = asking.Wait() //nolint:errcheck // each answer has its own error
	for _, c := range r {
		switch of := found[c.image()]; {
		case c.image() == "":
		case of == nil:
			c.unasked("")
		case of.err != nil:
			c.unasked(": " + printable.Line(of.err.Error(), maxReason))
		default:
			c.asked(of.Image)
		}
	}
}

// maxReason is the longest reason of a registry's that is printed, in bytes.
const maxReason = 200

// image is that of the server that is made, empty for anything else, and for one that import chose.
func (c *conversion) image() string {
	if c.kind.to != "MCPServer" || c.runner {
		return ""
	}
	return text(c.at("spec.image"))
}

// unasked says what is to be written that an image would have told.
func (c *conversion) unasked(why string) {
	if c.at("spec.transport") != "stdio" {
		return
	}
	if c.lacksCommand() {
		c.remark("spec.transport", "stdio", "write the image's entrypoint into spec.command, which stdio needs: Freehold's "+
			"bridge starts it as its child"+why)
	}
	c.remark("spec.image", c.image(), "variables that the image sets by ENV do not reach a server of stdio: declare "+
		"those that it needs in spec.env"+why)
}

func (c *conversion) lacksCommand() bool {
	command, _ := c.at("spec.command").([]any)
	return len(command) == 0
}

// asked completes the server by its image. What is stated wins.
func (c *conversion) asked(image Image) {
	var wrote []string
	if c.at("spec.transport") == "stdio" {
		wrote = append(wrote, c.entrypoint(image)...)
		wrote = append(wrote, c.environment(image)...)
	} else if c.at("spec.port") == nil && len(image.Ports) == 1 {
		set(c.main, "spec.port", int64(image.Ports[0]))
		wrote = append(wrote, "spec.port")
	}
	if len(wrote) > 0 {
		c.remark("spec.image", c.image(), fmt.Sprintf("its config at %s says %s", image.Digest, strings.Join(wrote, ", ")))
	}
	c.user(image)
}

// entrypoint writes what a bridge is to start: what the container's runtime would have.
func (c *conversion) entrypoint(image Image) (wrote []string) {
	if !c.lacksCommand() {
		return nil
	}
	args, _ := c.at("spec.args").([]any)
	if len(args) == 0 {
		args = texts(image.Command)
	}
	command := texts(image.Entrypoint)
	if len(command) == 0 && len(args) > 0 {
		command, args = args[:1], args[1:]
	}
	if len(command) == 0 {
		c.unasked(": the image has none")
		return nil
	}
	set(c.main, "spec.command", command)
	if len(args) > 0 {
		set(c.main, "spec.args", args)
	} else {
		cut(c.main, "spec.args")
	}
	return []string{"spec.command"}
}

// ofBase are variables of the base images that say what they are, or that the bridge hands on.
var ofBase = []string{
	"PATH", "HOME", "LANG", "TMPDIR", "NODE_VERSION", "YARN_VERSION", "GPG_KEY", "PYTHON_VERSION", "PYTHON_SHA256",
	"PYTHON_PIP_VERSION", "PYTHON_SETUPTOOLS_VERSION", "PYTHON_GET_PIP_URL", "PYTHON_GET_PIP_SHA256", "GOLANG_VERSION",
}

// environment writes the variables of an image that a server of stdio does not get, since the bridge's own process has
// them (docs/adr/0039).
func (c *conversion) environment(image Image) (wrote []string) {
	c.ofImage = map[string]bool{}
	for _, variable := range image.Env {
		name, value, _ := strings.Cut(variable, "=")
		if name != "" && !slices.Contains(ofBase, name) && !c.hasVariable(name) {
			c.variable(name, value)
			c.ofImage[name] = true
			wrote = append(wrote, "spec.env "+name)
		}
	}
	return wrote
}

// unprivileged is the user under which a server runs whose image says none that is allowed.
const unprivileged = int64(1000)

// user writes a number where an image runs as root, or under a name, whose number kubelet does not know.
func (c *conversion) user(image Image) {
	const at = "spec.podTemplate.spec.securityContext.runAsUser"
	one := c.at("spec.podTemplate.spec.containers")
	if c.at(at) != nil || slices.ContainsFunc(items(one), func(o map[string]any) bool {
		return o["name"] == container && isSet(o, "securityContext.runAsUser")
	}) {
		return
	}
	user, _, _ := strings.Cut(image.User, ":")
	number, err := strconv.ParseInt(user, 10, 64)
	switch {
	case err == nil && number > 0:
		return
	case user == "" || user == "root" || err == nil:
		c.remark("spec.image", c.image(), fmt.Sprintf("it runs as root: %s is %d; if the server cannot, see "+
			"MustRunAsRoot in docs/conditions.md", at, unprivileged))
	default:
		c.remark("spec.image", c.image(), fmt.Sprintf("it runs as %q, and Kubernetes asks for a number: %s is %d; "+
			"`docker run --rm --entrypoint id IMAGE` prints the right one", printable.Line(user, maxReason), at, unprivileged))
	}
	set(c.main, at, unprivileged)
}

func texts(list []string) []any {
	out := make([]any, len(list))
	for i, item := range list {
		out[i] = item
	}
	return out
}
