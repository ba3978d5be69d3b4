#include <gpuactors/base/random_id.hpp>
#include <gpuactors/base/utf8.hpp>

#include <apps/serve/cut_text.hpp>
#include <apps/serve/protocol/json_text.hpp>
#include <apps/serve/protocol/request_log.hpp>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace serve {

using gpuactors::Clock;
using gpuactors::Duration;
using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

constexpr std::size_t longest_request_id = 128;

/// Bytes of what clients name that a line has at most: strangers may name anything.
constexpr std::size_t longest_name = 512;

/// How often it is looked whether the file is still the one of that name.
constexpr auto look = std::chrono::seconds{1};

double seconds(Duration duration) {
  // Microseconds are enough, and shorter.
  return static_cast<double>(std::chrono::duration_cast<std::chrono::microseconds>(duration).count()) / 1e6;
}

/// A text of clients, as JSON may have it.
std::string readable(std::string_view text) {
  return cut_text(gpuactors::to_utf8(text), longest_name);
}

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0
         || std::string_view{"-_.:/+=@"}.find(c) != std::string_view::npos;
}

} // namespace

std::string request_id_of(std::string_view given) {
  if (!given.empty() && given.size() <= longest_request_id && std::all_of(given.begin(), given.end(), is_plain))
    return std::string{given};
  static std::atomic<std::uint64_t> next{gpuactors::random_id()};
  return fmt::format("{:016x}", next.fetch_add(1, std::memory_order_relaxed));
}

std::string log_line_of(const LoggedRequest& request) {
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(request.arrived.time_since_epoch()).count();
  JsonText json;
  json.object();
  json.key("time").value(fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                                     fmt::gmtime(std::chrono::system_clock::to_time_t(request.arrived)),
                                     milliseconds % 1000));
  json.key("front").value(request.front).key("client").value(request.client).key("id").value(request.id);
  if (request.trace.valid())
    json.key("trace").value(fmt::format("{:016x}{:016x}", request.trace.trace_high, request.trace.trace_low));
  json.key("request").value(readable(request.what));
  if (!request.model.empty())
    json.key("model").value(readable(request.model));
  if (!request.version.empty())
    json.key("version").value(readable(request.version));
  json.key("status").value(request.status);
  json.key("in_bytes").value(request.in_bytes).key("out_bytes").value(request.out_bytes);
  json.key("seconds").value(seconds(request.took));
  if (request.first)
    json.key("first_seconds").value(seconds(*request.first));
  if (request.times) {
    json.key("queue_seconds").value(seconds(request.times->queued));
    json.key("infer_seconds").value(seconds(request.times->inferred));
    json.key("batch_rows").value(request.times->batch_rows);
  }
  json.close();
  return std::move(json).take();
}

/// The file, on the log's thread.
class RequestLog::Output {
public:
  Output(std::filesystem::path file, std::function<void(const std::string&)> notice)
    : file_(std::move(file)), notice_(std::move(notice)) {
    // nop
  }

  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  ~Output() {
    close();
  }

  Result<void> open() {
    if (is_standard()) {
      descriptor_ = STDOUT_FILENO;
      return {};
    }
    // Without waiting for somebody who reads, if it is a pipe.
    const auto opened = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0640);
    looked_ = Clock::now();
    if (opened < 0)
      return fail(Errc::invalid_argument,
                  fmt::format("the request log {} cannot be written: {}", file_.string(), std::strerror(errno)));
    // The one before was there until now: it took lines as long as there is no other.
    close();
    descriptor_ = opened;
    return {};
  }

  void write(std::string_view lines) {
    if (!is_standard() && Clock::now() - looked_ >= look)
      find_again();
    // What broke off does not take the next line along.
    if (broken_off_ && !put("\n"))
      return;
    broken_off_ = false;
    while (!lines.empty()) {
      const auto written = put(lines);
      if (!written)
        return;
      lines.remove_prefix(*written);
      broken_off_ = !lines.empty() && lines.data()[-1] != '\n';
    }
    complained_ = false;
  }

private:
  [[nodiscard]] bool is_standard() const {
    return file_ == "-";
  }

  void close() {
    if (descriptor_ >= 0 && !is_standard())
      ::close(descriptor_);
    descriptor_ = -1;
  }

  /// @returns how many bytes were written; nothing, if none can be, with a complaint.
  std::optional<std::size_t> put(std::string_view bytes) {
    for (;;) {
      const auto written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written >= 0)
        return static_cast<std::size_t>(written);
      if (errno == EINTR)
        continue;
      complain(std::strerror(errno));
      return std::nullopt;
    }
  }

  /// Opens it anew if the name is another file by now.
  void find_again() {
    looked_ = Clock::now();
    struct stat named {};
    struct stat opened {};
    const bool same = ::stat(file_.c_str(), &named) == 0 && ::fstat(descriptor_, &opened) == 0
                      && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
    if (same)
      return;
    if (const auto again = open(); !again)
      complain(again.error().message());
  }

  void complain(const std::string& why) {
    if (!std::exchange(complained_, true))
      notice_(fmt::format("lines of the request log {} are lost: {}", file_.string(), why));
  }

  const std::filesystem::path file_;
  const std::function<void(const std::string&)> notice_;
  int descriptor_ = -1;
  gpuactors::TimePoint looked_{};
  bool complained_ = false;
  /// The last byte in the file is not the end of a line.
  bool broken_off_ = false;
};

Result<std::shared_ptr<RequestLog>> RequestLog::open(std::filesystem::path file,
                                                     std::function<void(const std::string&)> notice) {
  auto output = std::make_unique<Output>(std::move(file), std::move(notice));
  GPUACTORS_TRY(output->open());
  try {
    return std::shared_ptr<RequestLog>{new RequestLog{std::move(output)}};
  } catch (const std::system_error& error) { // from std::thread
    return fail(Errc::unavailable, fmt::format("there is no thread for the request log: {}", error.what()));
  }
}

RequestLog::RequestLog(std::unique_ptr<Output> output) : output_(std::move(output)), thread_([this] { run(); }) {
  // nop
}

RequestLog::~RequestLog() {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void RequestLog::add(LoggedRequest request) {
  request.took = Clock::now() - request.begun;
  // So that what waits is bounded in bytes, too. Cut once more where it is written, as text.
  for (auto* const text : {&request.what, &request.model, &request.version})
    if (text->size() > 2 * longest_name) {
      text->resize(2 * longest_name);
      text->shrink_to_fit();
    }
  bool first = false;
  {
    const std::lock_guard lock{mutex_};
    if (waiting_.size() == most_waiting) {
      ++lost_;
      return;
    }
    first = waiting_.empty();
    waiting_.push_back(std::move(request));
  }
  if (first)
    wake_.notify_one();
}

std::size_t RequestLog::lost() const {
  const std::lock_guard lock{mutex_};
  return lost_;
}

void RequestLog::run() {
  std::vector<LoggedRequest> taken;
  for (bool going = true; going;) {
    taken.clear();
    {
      std::unique_lock lock{mutex_};
      wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      taken.swap(waiting_);
      going = !stopping_ || !taken.empty();
    }
    std::string lines;
    for (const auto& request : taken)
      lines.append(log_line_of(request)).append("\n");
    output_->write(lines);
  }
}

} // namespace serve
