// A fork server (as fuzzers have), loaded into the command under test by LD_PRELOAD: when libtorch
// is loaded and its static objects are made, which takes most of a short command's time, it starts
// main() in a fork for each request. Everything after that is as in a start of its own: arguments,
// environment, folder, standard streams, exit status. fork_server.py sends the requests.
//
// BRIGADE_FORK_SERVER_SOCKET is the descriptor of a stream socket. A request is a Header with four
// descriptors (stdin, stdout, stderr and a pipe), then `bytes` of strings, each with its NUL: the
// working folder, the arguments, the environment. To the pipe are written the process id, and, when
// the process has ended, its wait status, both as int. When the socket is closed, the server ends
// and so do the processes that it has started.
#include <dlfcn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace {

struct Header {
  std::uint32_t bytes = 0;
  std::uint32_t arguments = 0;
};

struct Request {
  std::vector<char> strings;
  char* folder = nullptr;
  std::vector<char*> arguments, environment;  // each with a null pointer at its end
  int input = -1, output = -1, errors = -1, status = -1;
};

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "fork server: %s: %s\n", what, std::strerror(errno));
  ::_exit(125);
}

/// False where the socket has been closed.
bool receive_header(int socket, Header& header, Request& request) {
  std::array<int, 4> descriptors{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof descriptors)> control{};
  iovec part{&header, sizeof header};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t length = ::recvmsg(socket, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC);
  if (length == 0) return false;
  const cmsghdr* sent = CMSG_FIRSTHDR(&message);
  if (length != sizeof header || sent == nullptr || sent->cmsg_len != CMSG_LEN(sizeof descriptors))
    fail("receive a request");
  std::memcpy(descriptors.data(), CMSG_DATA(sent), sizeof descriptors);
  request.input = descriptors[0];
  request.output = descriptors[1];
  request.errors = descriptors[2];
  request.status = descriptors[3];
  return true;
}

bool receive(int socket, Request& request) {
  Header header;
  if (!receive_header(socket, header, request)) return false;
  request.strings.resize(header.bytes);
  if (::recv(socket, request.strings.data(), header.bytes, MSG_WAITALL) != header.bytes)
    fail("receive the strings of a request");
  std::vector<char*> strings;
  char* const end = request.strings.data() + header.bytes;
  for (char* at = request.strings.data(); at < end; at += std::strlen(at) + 1)
    strings.push_back(at);
  request.folder = strings.at(0);
  const auto middle = strings.begin() + 1 + header.arguments;
  request.arguments.assign(strings.begin() + 1, middle);
  request.arguments.push_back(nullptr);
  request.environment.assign(middle, strings.end());
  request.environment.push_back(nullptr);
  return true;
}

void close_all(const Request& request) {
  for (const int descriptor : {request.input, request.output, request.errors, request.status})
    ::close(descriptor);
}

/// Ends with its parent.
void follow(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(125);
}

/// In the new process: makes it the one that was asked for.
void become(const Request& request, int socket) {
  ::dup2(request.input, 0);
  ::dup2(request.output, 1);
  ::dup2(request.errors, 2);
  close_all(request);
  ::close(socket);
  if (::chdir(request.folder) != 0) fail("change the folder");
  environ = const_cast<char**>(request.environment.data());
}

void report(const Request& request, int value) {
  if (::write(request.status, &value, sizeof value) != sizeof value) ::_exit(1);
}

/// Forks a process that goes on to run main() and one that waits for it, which never returns.
/// Returns true in the former, and false in the server.
bool start(const Request& request, int socket) {
  const pid_t server = ::getpid();
  const pid_t waiting = ::fork();
  if (waiting < 0) fail("fork");
  if (waiting > 0) return false;
  follow(server);
  ::signal(SIGCHLD, SIG_DFL);
  const pid_t self = ::getpid();
  const pid_t process = ::fork();
  if (process < 0) fail("fork");
  if (process == 0) {
    follow(self);
    become(request, socket);
    return true;
  }
  for (const int descriptor : {request.input, request.output, request.errors}) ::close(descriptor);
  report(request, process);
  int status = 0;
  if (::waitpid(process, &status, 0) != process) fail("wait for the process");
  report(request, status);
  ::_exit(0);
}

std::size_t threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

}  // namespace

using Main = int (*)(int, char**, char**);
using StartMain = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);

// What a program's first instructions call, when all libraries are loaded and initialized.
extern "C" int __libc_start_main(Main main, int argc, char** argv, void (*init)(), void (*fini)(),
                                 void (*rtld_fini)(), void* stack_end) {
  const auto real = reinterpret_cast<StartMain>(dlsym(RTLD_NEXT, "__libc_start_main"));
  const char* const descriptor = std::getenv("BRIGADE_FORK_SERVER_SOCKET");
  if (descriptor == nullptr) return real(main, argc, argv, init, fini, rtld_fini, stack_end);
  const int socket = std::atoi(descriptor);
  follow(::getppid());
  if (threads() != 1) {  // which a fork would not have
    std::fprintf(stderr, "fork server: a library has started threads\n");
    return 125;
  }
  ::signal(SIGCHLD, SIG_IGN);  // nobody waits for those that wait
  for (;;) {
    auto* request = new Request;  // the process keeps it: its arguments and its environment
    if (!receive(socket, *request)) ::_exit(0);
    if (start(*request, socket)) {
      const auto arguments = static_cast<int>(request->arguments.size()) - 1;
      return real(main, arguments, request->arguments.data(), init, fini, rtld_fini, stack_end);
    }
    close_all(*request);
    delete request;
  }
}
