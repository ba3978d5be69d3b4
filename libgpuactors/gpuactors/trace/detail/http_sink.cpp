#include <gpuactors/base/version.hpp>
#include <gpuactors/trace/detail/curl.hpp>
#include <gpuactors/trace/detail/http_sink.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace gpuactors::detail {

namespace {

/// The body of the answer says what a collector has refused; its beginning will do.
std::size_t keep_beginning(const char* data, std::size_t size, std::size_t count, void* answer) {
  constexpr std::size_t most = 512;
  auto& text = *static_cast<std::string*>(answer);
  text.append(data, std::min(size * count, most - std::min(most, text.size())));
  return size * count;
}

/// Keeps a socket out of the processes that this one starts.
int close_in_children(void*, curl_socket_t socket, curlsocktype) {
  static_cast<void>(::fcntl(socket, F_SETFD, FD_CLOEXEC));
  return CURL_SOCKOPT_OK;
}

/// One connection, which is kept.
class HttpSink final : public SpanSink {
public:
  HttpSink(const Curl& curl, const TraceOptions& options)
    : curl_(curl), url_(options.url), handle_(curl.easy_init(), curl.easy_cleanup),
      fields_(nullptr, curl.slist_free_all) {
    add_field("Content-Type: application/x-protobuf");
    for (const auto& [name, value] : options.headers)
      add_field(fmt::format("{}: {}", name, value));
    set(CURLOPT_URL, url_.c_str());
    set(CURLOPT_HTTPHEADER, fields_.get());
    set(CURLOPT_POST, 1L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_SOCKOPTFUNCTION, &close_in_children);
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(to_milliseconds(options.timeout)));
    set(CURLOPT_USERAGENT, (std::string{"gpuactors/"} + release).c_str());
    set(CURLOPT_WRITEFUNCTION, &keep_beginning);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&answer_));
    if (!options.certificate.empty())
      set(CURLOPT_CAINFO, options.certificate.c_str());
  }

  Result<void> send(const std::string& body) override {
    answer_.clear();
    set(CURLOPT_POSTFIELDS, body.data());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    if (const auto code = curl_.easy_perform(handle_.get()); code != CURLE_OK)
      return fail(Errc::unavailable, fmt::format("{}: {}", url_, curl_.easy_strerror(code)));
    long status = 0;
    curl_.easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status);
    if (status >= 200 && status < 300)
      return {};
    // Those after which the protocol has clients try again.
    constexpr std::array again = {429L, 502L, 503L, 504L};
    return fail(std::find(again.begin(), again.end(), status) != again.end() ? Errc::unavailable
                                                                             : Errc::invalid_argument,
                fmt::format("{} answers with status {}{}{}", url_, status, answer_.empty() ? "" : ": ", answer_));
  }

private:
  template <class T>
  void set(CURLoption option, T value) {
    curl_.easy_setopt(handle_.get(), option, value);
  }

  void add_field(const std::string& line) {
    if (auto* longer = curl_.slist_append(fields_.get(), line.c_str())) {
      static_cast<void>(fields_.release());
      fields_.reset(longer);
    }
  }

  const Curl curl_;
  const std::string url_;
  std::string answer_;
  const std::unique_ptr<CURL, decltype(&::curl_easy_cleanup)> handle_;
  std::unique_ptr<curl_slist, decltype(&::curl_slist_free_all)> fields_;
};

} // namespace

Result<std::unique_ptr<SpanSink>> make_http_sink(const TraceOptions& options) {
  GPUACTORS_LET(curl, load_curl());
  return std::unique_ptr<SpanSink>{std::make_unique<HttpSink>(curl, options)};
}

void describe_process(TraceOptions& options) {
  const auto add = [&](std::string_view key, std::string value) {
    const auto is_there = [&](const auto& entry) { return entry.first == key; };
    if (std::none_of(options.resource.begin(), options.resource.end(), is_there))
      options.resource.emplace_back(key, std::move(value));
  };
  std::array<char, 256> host{};
  const bool named = ::gethostname(host.data(), host.size() - 1) == 0;
  add("service.name", "gpuactors");
  if (named)
    add("host.name", host.data());
  add("service.instance.id", fmt::format("{}:{}", named ? host.data() : "", ::getpid()));
  add("process.pid", std::to_string(::getpid()));
  add("telemetry.sdk.name", "gpuactors");
  add("telemetry.sdk.language", "cpp");
  add("telemetry.sdk.version", release);
}

} // namespace gpuactors::detail
