#include <gpu/child.hpp>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace gpuactors::gpu {

namespace {

constexpr std::chrono::seconds patience{30};

/// Waits until there is something to read or the other side is gone. @returns false when the time is up.
bool await(int descriptor, std::chrono::steady_clock::time_point until) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
    pollfd waited{descriptor, POLLIN, 0};
    const auto ready = poll(&waited, 1, static_cast<int>(std::max<std::int64_t>(0, left)));
    if (ready >= 0 || errno != EINTR)
      return ready != 0;
  }
}

std::chrono::steady_clock::time_point from_now() {
  return std::chrono::steady_clock::now() + patience;
}

} // namespace

Child::Child(const std::string& what) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw Trouble{"no pair of sockets"};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  // By its path: it looks for the CUDA module beside itself.
  std::error_code ignored;
  std::string program = std::filesystem::read_symlink("/proc/self/exe", ignored).string();
  std::string option = "--child";
  std::string value = what;
  std::array<char*, 4> arguments{program.data(), option.data(), value.data(), nullptr};
  const auto failed = posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  socket_ = ends[0];
  if (failed != 0) {
    close(socket_);
    throw Trouble{"a child process could not be started"};
  }
}

Child::~Child() {
  kill();
  if (pid_ != 0)
    wait();
  close(socket_);
}

std::string Child::output() const {
  std::string text;
  std::array<char, 4096> block{};
  const auto until = from_now();
  for (ssize_t got = 1; got > 0;) {
    if (!await(socket_, until))
      throw Trouble{"a child process did not end within half a minute; until then it said: " + text};
    got = read(socket_, block.data(), block.size());
    text.append(block.data(), static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  }
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  return text;
}

int Child::wait() {
  // Its end can be waited for with a limit by its descriptor alone; a system without them waits without.
  const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (descriptor >= 0) {
    // One that is stuck in the driver does not even end when it is killed.
    bool ended = await(descriptor, from_now());
    if (!ended) {
      kill();
      ended = await(descriptor, from_now());
    }
    close(descriptor);
    if (!ended) {
      pid_ = 0;
      return -1;
    }
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void Child::kill() noexcept {
  if (pid_ != 0)
    ::kill(pid_, SIGKILL);
}

namespace {

/// A byte, with room for a descriptor beside it.
struct Letter {
  char byte = 1;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};

  Letter() {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  Letter(const Letter&) = delete;
  Letter& operator=(const Letter&) = delete;
};

} // namespace

void send_descriptor(int socket, int descriptor) {
  Letter letter;
  auto* const header = CMSG_FIRSTHDR(&letter.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(descriptor));
  if (sendmsg(socket, &letter.message, MSG_NOSIGNAL) != 1)
    throw Trouble{"a descriptor could not be sent"};
}

int receive_descriptor(int socket, std::string& instead) {
  if (!await(socket, from_now()))
    throw Trouble{"a child process sent nothing within half a minute"};
  Letter letter;
  if (recvmsg(socket, &letter.message, MSG_CMSG_CLOEXEC) != 1)
    return -1;
  const auto* const header = CMSG_FIRSTHDR(&letter.message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) {
    instead += letter.byte;
    return -1;
  }
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof(descriptor));
  return descriptor;
}

} // namespace gpuactors::gpu
