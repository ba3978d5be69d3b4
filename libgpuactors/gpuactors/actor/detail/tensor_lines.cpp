#include <gpuactors/actor/detail/tensor_lines.hpp>

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace gpuactors::detail {

namespace {

/// Returns the lowest descriptor number that no line may have. The kernel assigns the lowest free number, so half of
/// the descriptors remain for other purposes.
int most_descriptors() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  return static_cast<int>(std::min<rlim_t>(files.rlim_cur / 2, INT_MAX));
}

} // namespace

Result<std::shared_ptr<Descriptor>> TensorLines::lend(std::shared_ptr<TensorEntry> entry) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fail(Errc::unavailable, fmt::format("a tensor cannot be lent: {}", errno_text(errno)));
  auto own = std::make_shared<Descriptor>(ends[0]);
  auto others = std::make_shared<Descriptor>(ends[1]);
  if (ends[1] >= most_descriptors())
    return fail(Errc::unavailable, "a tensor cannot be lent: most descriptors of this process are in use");
  auto& line = lines_[++last_];
  line.socket = std::move(own);
  line.lent = std::move(entry);
  return others;
}

void TensorLines::recall(std::uint64_t id) {
  for (auto& [number, line] : lines_)
    line.recalled |= line.lent != nullptr && line.lent->id == id;
}

void TensorLines::borrow(const std::shared_ptr<TensorEntry>& entry, std::shared_ptr<Descriptor> line) {
  auto& added = lines_[++last_];
  added.borrowed = entry;
  added.socket = std::move(line);
}

std::map<std::uint64_t, TensorLines::Line>::iterator TensorLines::take(std::map<std::uint64_t, Line>::iterator line,
                                                                       EndedLines& ended) {
  if (line->second.lent != nullptr)
    ended.returned.push_back(std::move(line->second.lent));
  else if (auto entry = line->second.borrowed.lock())
    ended.lost.push_back(std::move(entry));
  return lines_.erase(line);
}

void TensorLines::sweep(EndedLines& ended) {
  for (auto line = lines_.begin(); line != lines_.end();) {
    const bool unused = line->second.lent == nullptr && line->second.borrowed.expired();
    line = unused || line->second.recalled ? take(line, ended) : std::next(line);
  }
}

void TensorLines::prepare(std::vector<pollfd>& polled) const {
  // No events are requested: poll always reports a closed other end.
  for (const auto& [number, line] : lines_)
    polled.push_back({line.socket->get(), 0, 0});
}

void TensorLines::settle(std::span<const pollfd> polled, EndedLines& ended) {
  auto line = lines_.begin();
  for (const auto& one : polled)
    line = one.revents != 0 ? take(line, ended) : std::next(line);
}

void TensorLines::end(EndedLines& ended) {
  for (auto& [number, line] : lines_)
    if (line.lent != nullptr)
      ended.returned.push_back(std::move(line.lent));
  lines_.clear();
}

} // namespace gpuactors::detail
