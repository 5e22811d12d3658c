// Pulumi's language host for Python, as far as running a program needs it: the program's Python runs the SDK's
// own pulumi-language-python-exec. The original is no Go module that a proxy serves.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil"
	"github.com/pulumi/pulumi/sdk/v3/go/common/version"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

const (
	// What pulumi-language-python-exec exits with after it has shown an error.
	shown = 32
	// Name the socket of shared.py beside the sandbox's plugins, and the environment whose Python it runs.
	sharedPlugins     = "CCMFS_PLUGINS"
	sharedEnvironment = "CCMFS_PLUGINS_ENVIRONMENT"
)

type host struct {
	pulumirpc.UnimplementedLanguageRuntimeServer
	engine string
}

func main() {
	go endWithEngine()
	if filepath.Base(os.Args[0]) == "pulumi-resource-pulumi-python" {
		os.Exit(serveDynamic())
	}
	var engine string
	for _, argument := range os.Args[1:] {
		if !strings.HasPrefix(argument, "-") {
			engine = argument
		}
	}
	served, err := rpcutil.ServeWithOptions(rpcutil.ServeOptions{
		Init: func(server *grpc.Server) error {
			pulumirpc.RegisterLanguageRuntimeServer(server, &host{engine: engine})
			return nil
		},
	})
	if err == nil {
		fmt.Println(served.Port)
		err = <-served.Done
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// An engine that is killed leaves its plugins behind, and these what they started. One that ends by itself
// interrupts them, and waits five seconds for those that ignore it: what a script starts in the background
// inherits an ignored SIGINT.
func endWithEngine() {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, syscall.SIGINT)
	for parent, ended := os.Getppid(), false; !ended && os.Getppid() == parent; {
		select {
		case <-interrupted:
			ended = true
		case <-time.After(100 * time.Millisecond):
		}
	}
	if syscall.Getpgrp() == os.Getpid() {
		_ = syscall.Kill(0, syscall.SIGKILL)
	}
	os.Exit(1)
}

// The socket of the process that serves all plugins of a run of './dev', which has loaded a virtual environment's
// Python; empty where there is none, or it is another environment.
func sharedBy(environment string) string {
	folder, err := filepath.EvalSymlinks(environment)
	if err != nil || folder != os.Getenv(sharedEnvironment) {
		return ""
	}
	return os.Getenv(sharedPlugins)
}

// Asks that process for something, with files in place of its standard output and standard error.
func ask(path string, asked map[string]any, files ...*os.File) (*net.UnixConn, error) {
	folder, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	connection, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	var rights []byte
	if len(files) > 0 {
		descriptors := make([]int, len(files))
		for index, file := range files {
			descriptors[index] = int(file.Fd())
		}
		rights = syscall.UnixRights(descriptors...)
	}
	asked["folder"] = folder
	if _, _, err = connection.WriteMsgUnix([]byte("\n"), rights, nil); err == nil {
		err = json.NewEncoder(connection).Encode(asked)
	}
	return connection, err
}

// That process serves dynamic providers once, and answers with the port.
func attach(path string) int {
	connection, err := ask(path, map[string]any{"environment": os.Environ()})
	if err == nil {
		_, err = io.Copy(os.Stdout, connection)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1
}

// Runs a program of that process's Python, and returns its exit code; false where it has run one already.
func runLoaded(ctx context.Context, path string, command *exec.Cmd) (code int, ran bool) {
	asked := map[string]any{"program": command.Args[2:], "environment": command.Env}
	connection, err := ask(path, asked, os.Stdout, os.Stderr)
	if err != nil {
		return 0, false
	}
	defer connection.Close()
	defer context.AfterFunc(ctx, func() { _ = connection.Close() })()
	_, err = fmt.Fscan(connection, &code)
	return code, err == nil
}

// What the script of the same name in the SDK does: the SDK's server of dynamic providers, in the program's Python.
func serveDynamic() int {
	python := os.Getenv("PULUMI_PYTHON_CMD")
	if python == "" {
		python = "python3"
	}
	folder := os.Getenv("PULUMI_RUNTIME_VIRTUALENV")
	if folder == "" && os.Getenv("PULUMI_RUNTIME_TOOLCHAIN") == "uv" {
		folder = ".venv"
	}
	if folder != "" {
		absolute, err := filepath.Abs(folder)
		if err != nil || !virtual(absolute) {
			fmt.Fprintf(os.Stderr, "virtualenv: %s is not a virtual environment: python3 -m venv %s\n", folder, folder)
			return 1
		}
		if shared := sharedBy(absolute); shared != "" {
			return attach(shared)
		}
		python = filepath.Join(absolute, "bin", "python")
		os.Setenv("PATH", filepath.Dir(python)+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	command := exec.Command(python, append([]string{"-u", "-m", "pulumi.dynamic"}, os.Args[1:]...)...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (h *host) Handshake(
	_ context.Context, request *pulumirpc.LanguageHandshakeRequest,
) (*pulumirpc.LanguageHandshakeResponse, error) {
	h.engine = request.GetEngineAddress()
	return &pulumirpc.LanguageHandshakeResponse{}, nil
}

// The engine loads plugins when the program asks for their resources.
func (h *host) GetRequiredPackages(
	context.Context, *pulumirpc.GetRequiredPackagesRequest,
) (*pulumirpc.GetRequiredPackagesResponse, error) {
	return &pulumirpc.GetRequiredPackagesResponse{}, nil
}

func (h *host) GetPluginInfo(context.Context, *emptypb.Empty) (*pulumirpc.PluginInfo, error) {
	return &pulumirpc.PluginInfo{Version: version.Version}, nil
}

func (h *host) RuntimeOptionsPrompts(
	context.Context, *pulumirpc.RuntimeOptionsRequest,
) (*pulumirpc.RuntimeOptionsResponse, error) {
	return &pulumirpc.RuntimeOptionsResponse{}, nil
}

func (h *host) GetProgramDependencies(
	context.Context, *pulumirpc.GetProgramDependenciesRequest,
) (*pulumirpc.GetProgramDependenciesResponse, error) {
	return &pulumirpc.GetProgramDependenciesResponse{}, nil
}

func (h *host) About(ctx context.Context, request *pulumirpc.AboutRequest) (*pulumirpc.AboutResponse, error) {
	python := pythonOf(request.GetInfo())
	said, err := exec.CommandContext(ctx, python, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w", python, err)
	}
	return &pulumirpc.AboutResponse{
		Executable: python,
		Version:    strings.TrimPrefix(strings.TrimSpace(string(said)), "Python "),
	}, nil
}

func (h *host) Run(ctx context.Context, request *pulumirpc.RunRequest) (*pulumirpc.RunResponse, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return nil, err
	}
	config, err := json.Marshal(nonNil(request.GetConfig()))
	if err != nil {
		return nil, err
	}
	secrets, err := json.Marshal(append([]string{}, request.GetConfigSecretKeys()...))
	if err != nil {
		return nil, err
	}
	info := request.GetInfo()
	arguments := []string{
		"-u", filepath.Join(filepath.Dir(self), "pulumi-language-python-exec"),
		"--monitor", request.GetMonitorAddress(),
		"--engine", h.engine,
		"--project", request.GetProject(),
		"--root_directory", info.GetRootDirectory(),
		"--stack", request.GetStack(),
		"--organization", request.GetOrganization(),
		"--pwd", request.GetPwd(),
		"--dry_run", strconv.FormatBool(request.GetDryRun()),
		"--parallel", strconv.Itoa(int(request.GetParallel())),
		filepath.Join(info.GetProgramDirectory(), info.GetEntryPoint()),
	}
	python := pythonOf(info)
	command := exec.CommandContext(ctx, python, append(arguments, request.GetArgs()...)...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.Env = append(
		os.Environ(), "PULUMI_CONFIG="+string(config), "PULUMI_CONFIG_SECRET_KEYS="+string(secrets),
	)
	environment := filepath.Dir(filepath.Dir(python))
	if virtual(environment) {
		command.Env = append(command.Env, "VIRTUAL_ENV="+environment,
			"PATH="+filepath.Dir(python)+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	code, ran := 0, false
	if shared := sharedBy(environment); shared != "" {
		code, ran = runLoaded(ctx, shared, command)
	}
	if !ran {
		var failed *exec.ExitError
		if err := command.Run(); errors.As(err, &failed) {
			code = failed.ExitCode()
		} else if err != nil {
			return nil, fmt.Errorf("%s can't be run: %w", python, err)
		}
	}
	switch code {
	case 0:
		return &pulumirpc.RunResponse{}, nil
	case shown:
		return &pulumirpc.RunResponse{Bail: true}, nil
	default:
		return &pulumirpc.RunResponse{Error: fmt.Sprintf("the program ended: exit status %d", code)}, nil
	}
}

// Policy packs and providers that are Python programs. What they print goes back to the engine, which waits for a port.
func (h *host) RunPlugin(
	request *pulumirpc.RunPluginRequest, server pulumirpc.LanguageRuntime_RunPluginServer,
) error {
	closer, stdout, stderr, err := rpcutil.MakeRunPluginStreams(server, false)
	if err != nil {
		return err
	}
	info := request.GetInfo()
	program := filepath.Join(info.GetProgramDirectory(), info.GetEntryPoint())
	arguments := append([]string{"-u", program}, request.GetArgs()...)
	if request.GetKind() == "analyzer" {
		arguments = append(append([]string{"-u", "-m", "pulumi.policy"}, request.GetArgs()...), program)
	}
	command := exec.CommandContext(server.Context(), pythonOf(info), arguments...)
	command.Dir, command.Env = request.GetPwd(), request.GetEnv()
	command.Stdout, command.Stderr = stdout, stderr
	err = command.Run()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return errors.Join(err, closer.Close())
	}
	if err := closer.Close(); err != nil {
		return err
	}
	return server.Send(&pulumirpc.RunPluginResponse{
		Output: &pulumirpc.RunPluginResponse_Exitcode{Exitcode: int32(command.ProcessState.ExitCode())},
	})
}

// The Python of the option virtualenv, which is relative to the program; else the first one on PATH.
func pythonOf(info *pulumirpc.ProgramInfo) string {
	folder := info.GetOptions().GetFields()["virtualenv"].GetStringValue()
	if folder != "" && !filepath.IsAbs(folder) {
		folder = filepath.Join(info.GetRootDirectory(), folder)
	}
	if folder != "" && virtual(folder) {
		return filepath.Join(folder, "bin", "python")
	}
	if named := os.Getenv("PULUMI_PYTHON_CMD"); named != "" {
		return named
	}
	if found, err := exec.LookPath("python3"); err == nil {
		return found
	}
	return "python3"
}

func virtual(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "pyvenv.cfg"))
	return err == nil
}

func nonNil(values map[string]string) map[string]string {
	if values == nil {
		return map[string]string{}
	}
	return values
}
