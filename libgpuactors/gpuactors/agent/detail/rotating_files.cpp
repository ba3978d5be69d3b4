#include "rotating_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace gpuactors::detail {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "output-";
constexpr std::string_view suffix = ".log";

fs::path path_of(const fs::path& folder, std::uint64_t number) {
  return folder / fmt::format("{}{:010}{}", prefix, number, suffix);
}

std::optional<std::uint64_t> number_of(std::string_view name) {
  if (name.substr(0, prefix.size()) != prefix || name.size() <= prefix.size() + suffix.size()
      || name.substr(name.size() - suffix.size()) != suffix)
    return {};
  const char* const end = name.data() + name.size() - suffix.size();
  std::uint64_t number = 0;
  const auto [rest, error] = std::from_chars(name.data() + prefix.size(), end, number);
  return error == std::errc{} && rest == end ? std::optional{number} : std::nullopt;
}

/// The numbers of the folder's log files, ascending; empty when the folder cannot be read.
std::vector<std::uint64_t> numbers_in(const fs::path& folder) {
  std::vector<std::uint64_t> result;
  std::error_code error;
  for (fs::directory_iterator it{folder, error}, end; !error && it != end; it.increment(error))
    if (const auto number = number_of(it->path().filename().native()))
      result.push_back(*number);
  std::sort(result.begin(), result.end());
  return result;
}

/// Whether it is a file of this process's user. The folder may be one in which others make files, and links to files
/// elsewhere: what workers print is not written there, nor read from there.
bool is_own_file(const struct stat& status) {
  return S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
}

/// The first `most` bytes of a file, or fewer when it is shorter; empty when it cannot be read.
std::string text_of(const fs::path& path, std::uint64_t most) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !is_own_file(status))
    return {};
  return read_to_end(file.get(), std::min(most, static_cast<std::uint64_t>(status.st_size))).value_or(std::string{});
}

Result<void> make_folder(const fs::path& folder) {
  // Output of workers may be confidential: mode 0700 gives access only to the user who runs them.
  std::error_code ignored; // the mkdir below reports the error
  if (folder.has_parent_path())
    fs::create_directories(folder.parent_path(), ignored);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno(folder, "made");
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0)
    return fail_errno(folder, "read");
  // Root's may be a volume that is mounted into a container.
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    return fail(
        Errc::invalid_argument,
        fmt::format("the folder {0} belongs to user {1}, who may remove what is written there, and this node runs "
                    "as user {2}: chown {2} {0} or name another (--logs)",
                    folder.string(), status.st_uid, ::geteuid()));
  return {};
}

} // namespace

Result<Descriptor> lock_folder(const fs::path& folder) {
  GPUACTORS_TRY(make_folder(folder));
  Descriptor file{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!file)
    return fail_errno(folder, "read");
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0)
    return file;
  if (errno != EWOULDBLOCK)
    return fail_errno(folder, "locked");
  return fail(Errc::already_exists,
              fmt::format("the folder {} is the log of another node that runs here", folder.string()));
}

RotatingFiles::RotatingFiles(fs::path folder, std::uint64_t file_bytes, std::size_t files)
  : folder_(std::move(folder)), file_bytes_(file_bytes), files_(files) {
  // nop
}

Result<RotatingFiles> RotatingFiles::open(fs::path folder, std::uint64_t file_bytes, std::size_t files) {
  RotatingFiles result{std::move(folder), file_bytes, files};
  GPUACTORS_TRY(result.resume());
  return result;
}

Result<std::string> RotatingFiles::append(std::string_view line) {
  struct stat status {};
  std::string lost;
  if (file_ && (::fstat(file_.get(), &status) != 0 || status.st_nlink == 0)) {
    lost = fmt::format("the log file {} was removed", path_of(folder_, end_.file).string());
    file_.reset();
    ++end_.file; // so that positions in the removed file stay in the past
  } else if (file_) {
    end_.bytes = static_cast<std::uint64_t>(status.st_size); // somebody may have truncated the file
  }
  if (!file_)
    GPUACTORS_TRY(resume());
  if (end_.bytes > 0 && end_.bytes + line.size() + 1 > file_bytes_)
    GPUACTORS_TRY(use(end_.file + 1));
  GPUACTORS_TRY(write(line));
  return lost;
}

Result<void> RotatingFiles::resume() {
  GPUACTORS_TRY(make_folder(folder_));
  const auto numbers = numbers_in(folder_);
  GPUACTORS_TRY(use(std::max({end_.file, std::uint64_t{1}, numbers.empty() ? 0 : numbers.back()})));
  // A process that was killed may have left an incomplete line.
  char last = '\n';
  if (end_.bytes > 0 && ::pread(file_.get(), &last, 1, static_cast<off_t>(end_.bytes) - 1) == 1 && last != '\n')
    return write({});
  return {};
}

Result<void> RotatingFiles::use(std::uint64_t number) {
  // Removes old files first, since the disk may be full.
  auto numbers = numbers_in(folder_);
  numbers.erase(std::remove(numbers.begin(), numbers.end(), number), numbers.end());
  for (std::size_t i = 0; i + files_ < numbers.size() + 1; ++i)
    ::unlink(path_of(folder_, numbers[i]).c_str());
  const auto path = path_of(folder_, number);
  Descriptor file{::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600)};
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0)
    return fail_errno(path, "written");
  if (!is_own_file(status))
    return fail(Errc::invalid_argument,
                fmt::format("{} is no file of user {}, as whom this node runs: remove it", path.string(), ::geteuid()));
  file_ = std::move(file);
  end_ = {number, static_cast<std::uint64_t>(status.st_size)};
  return {};
}

Result<void> RotatingFiles::write(std::string_view line) {
  std::string text{line};
  text += '\n';
  if (!write_all(file_.get(), text)) {
    auto failure = fail_errno(path_of(folder_, end_.file), "written");
    // Removes the incomplete line. If that fails too, the next line is appended to it.
    [[maybe_unused]] const auto result = ::ftruncate(file_.get(), static_cast<off_t>(end_.bytes));
    return failure;
  }
  end_.bytes += text.size();
  return {};
}

void RotatingFiles::read_back(const fs::path& folder, LogPlace end, const std::function<bool(std::string_view)>& more) {
  const auto numbers = numbers_in(folder);
  for (auto it = numbers.rbegin(); it != numbers.rend(); ++it) {
    if (*it > end.file)
      continue;
    const auto text = text_of(path_of(folder, *it), *it == end.file ? end.bytes : UINT64_MAX);
    std::string_view rest = text;
    while (!rest.empty()) {
      if (rest.back() == '\n')
        rest.remove_suffix(1);
      const auto begin = rest.rfind('\n') + 1; // npos + 1 is 0
      if (!more(rest.substr(begin)))
        return;
      rest = rest.substr(0, begin);
    }
  }
}

} // namespace gpuactors::detail
