#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/descriptor.hpp>
#include <gpuactors/base/files.hpp>
#include <gpuactors/cluster/detail/process_tree.hpp>

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace gpuactors::detail {

namespace {

/// How long processes may take to stop or to be gone.
constexpr std::chrono::seconds tree_patience{5};

/// What /proc says of a process or thread: "R", "T" and so on, and its parent.
struct ProcStat {
  char state = 0;
  pid_t parent = 0;
};

std::optional<ProcStat> read_stat(const std::filesystem::path& folder) {
  const auto text = read_to_end(folder / "stat");
  if (!text) // it has ended, perhaps after the file was opened
    return std::nullopt;
  // "PID (NAME) STATE PARENT ...": a name may hold anything, also parentheses.
  const auto name_end = text->rfind(") ");
  if (name_end == std::string::npos || name_end + 4 > text->size())
    return std::nullopt;
  ProcStat stat{(*text)[name_end + 2]};
  const auto* const number = text->data() + name_end + 4;
  std::from_chars(number, text->data() + text->size(), stat.parent);
  return stat;
}

/// Whether no thread of it runs: they stop one after the other, a moment after the signal.
bool stands_still(pid_t pid) {
  constexpr std::string_view still{"TtZX"};
  std::error_code gone;
  for (std::filesystem::directory_iterator thread{fmt::format("/proc/{}/task", pid), gone}, last;
       !gone && thread != last; thread.increment(gone))
    if (const auto stat = read_stat(thread->path()); stat && still.find(stat->state) == std::string_view::npos)
      return false;
  return true;
}

void stop_and_wait(pid_t pid) {
  ::kill(pid, SIGSTOP);
  const auto until = Clock::now() + tree_patience;
  while (!stands_still(pid) && Clock::now() < until)
    std::this_thread::sleep_for(std::chrono::microseconds{200});
}

/// From /proc of all processes: not every kernel lists the children of one.
std::vector<pid_t> children_of(pid_t parent, const std::filesystem::path& proc) {
  std::vector<pid_t> children;
  std::error_code error;
  for (std::filesystem::directory_iterator entry{proc, error}, last; !error && entry != last; entry.increment(error)) {
    const auto name = entry->path().filename().string();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc{})
      continue;
    if (const auto stat = read_stat(entry->path()); stat && stat->parent == parent)
      children.push_back(pid);
  }
  return children;
}

template <class F>
std::vector<pid_t> walk_tree(pid_t root, const std::filesystem::path& proc, F&& visit) {
  std::vector<pid_t> tree{root};
  for (std::size_t i = 0; i < tree.size(); ++i) {
    visit(tree[i]);
    const auto children = children_of(tree[i], proc);
    tree.insert(tree.end(), children.begin(), children.end());
  }
  return tree;
}

} // namespace

std::vector<pid_t> process_tree(pid_t root, const std::filesystem::path& proc) {
  return walk_tree(root, proc, [](pid_t) {});
}

std::vector<pid_t> freeze_tree(pid_t root) {
  return walk_tree(root, "/proc", stop_and_wait);
}

void resume_tree(pid_t root) {
  const auto tree = process_tree(root);
  std::for_each(tree.rbegin(), tree.rend(), [](pid_t pid) { ::kill(pid, SIGCONT); });
}

void kill_tree(pid_t root) {
  const auto tree = freeze_tree(root);
  // Below the root. Handles, since pids are free for others as soon as whoever inherits these processes has reaped
  // them.
  std::vector<Descriptor> handles;
  for (auto pid = tree.begin() + 1; pid != tree.end(); ++pid)
    handles.emplace_back(static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0)));
  std::for_each(tree.rbegin(), tree.rend(), [](pid_t pid) { ::kill(pid, SIGKILL); });
  const auto until = Clock::now() + tree_patience;
  for (const auto& handle : handles) {
    pollfd ended{handle.get(), POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    // Without a handle, it was gone before.
    if (handle)
      ::poll(&ended, 1, static_cast<int>(std::max<std::int64_t>(0, left)));
  }
}

} // namespace gpuactors::detail
