#include <gpuactors/cluster/detail/kept_connections.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <thread>

namespace gpuactors::detail {

namespace {

/// The state of a TCP connection; `TCP_CLOSE` for one that has failed, and for what is none.
int state_of(int descriptor) {
  tcp_info info{};
  socklen_t size = sizeof info;
  const bool is_known = ::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
  return is_known ? int{info.tcpi_state} : int{TCP_CLOSE};
}

/// How many bytes the other side has not acknowledged.
int untaken(int descriptor) {
  int bytes = 0;
  return state_of(descriptor) != TCP_CLOSE && ::ioctl(descriptor, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

} // namespace

KeptConnections::KeptConnections() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder{::opendir("/proc/self/fd"), ::closedir};
  if (folder == nullptr)
    return;
  std::vector<int> found;
  while (const auto* entry = ::readdir(folder.get()))
    if (const auto state = state_of(std::atoi(entry->d_name)); state != TCP_CLOSE && state != TCP_LISTEN)
      found.push_back(std::atoi(entry->d_name));
  for (const auto descriptor : found)
    connections_.emplace_back(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
}

void KeptConnections::await_taken(Duration patience) const {
  constexpr std::chrono::milliseconds look{1};
  const auto end = deadline_after(Clock::now(), patience);
  const auto is_taken = [](const Descriptor& connection) { return untaken(connection.get()) == 0; };
  while (!std::all_of(connections_.begin(), connections_.end(), is_taken) && Clock::now() < end)
    std::this_thread::sleep_for(look);
}

} // namespace gpuactors::detail
