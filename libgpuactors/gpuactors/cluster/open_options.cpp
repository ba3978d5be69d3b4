#include <gpuactors/base/suggest.hpp>
#include <gpuactors/base/units.hpp>
#include <gpuactors/cluster/detail/check_options.hpp>
#include <gpuactors/cluster/open_options.hpp>
#include <gpuactors/device/discovery.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

namespace gpuactors {

namespace {

constexpr std::array<std::string_view, 7> names{"--devices",   "--broker",       "--certs",          "--insecure",
                                                "--heartbeat", "--link-timeout", "--reconnect-grace"};

/// Refuses likely misspellings of our options: unknown options are the program's own, and a misspelled one would be
/// ignored and select the wrong cluster.
Result<void> check_spelling(std::string_view name) {
  if (!name.starts_with("--"))
    return {};
  constexpr std::size_t long_name = 8;
  for (const auto known : names) {
    const auto distance = edit_distance(name, known);
    if (distance == 1 || (distance == 2 && name.size() > long_name))
      return fail(Errc::invalid_argument,
                  fmt::format("there is no option {}; did you mean \"{}\"? Options of the program itself that are "
                              "spelled so alike go behind --",
                              name, known));
  }
  return {};
}

Result<Duration> read_seconds(std::string_view name, const std::string& text) {
  const auto seconds = parse_double(text);
  if (!seconds || !(*seconds >= 0))
    return fail(Errc::invalid_argument, fmt::format("{} is \"{}\": seconds are expected, such as 0.5", name, text));
  return from_seconds(*seconds);
}

/// Stores the value of an option.
Result<void> set(OpenOptions& options, std::string_view name, const std::string& value) {
  auto& connect = options.connect;
  if (name == "--devices") {
    options.embed.devices += (options.embed.devices.empty() ? "" : " ") + value;
  } else if (name == "--broker") {
    connect.broker = value;
  } else if (name == "--certs") {
    connect.certificates = value;
  } else {
    GPUACTORS_LET(duration, read_seconds(name, value));
    (name == "--heartbeat"      ? connect.heartbeat
     : name == "--link-timeout" ? connect.link_timeout
                                : connect.reconnect_grace) = duration;
  }
  return {};
}

} // namespace

OpenOptions OpenOptions::from_environment() {
  OpenOptions options;
  if (const auto* broker = std::getenv("GPUACTORS_BROKER"); broker != nullptr)
    options.connect.broker = broker;
  if (const auto* certificates = std::getenv("GPUACTORS_CERTS"); certificates != nullptr)
    options.connect.certificates = certificates;
  return options;
}

Result<OpenOptions> OpenOptions::from_arguments(int argc, const char* const* argv) {
  auto options = from_environment();
  for (int i = 1; i < argc && std::string_view{argv[i]} != "--"; ++i) {
    const std::string_view argument = argv[i];
    const auto equals = argument.find('=');
    const auto name = argument.substr(0, equals);
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      GPUACTORS_TRY(check_spelling(name));
    } else if (name == "--insecure") {
      if (argument != name)
        return fail(Errc::invalid_argument, fmt::format("{}: --insecure takes no value", argument));
      options.connect.insecure = true;
    } else if (equals != std::string_view::npos) {
      GPUACTORS_TRY(set(options, name, std::string{argument.substr(equals + 1)}));
    } else if (i + 1 < argc) {
      GPUACTORS_TRY(set(options, name, argv[++i]));
    } else {
      return fail(Errc::invalid_argument, fmt::format("{} needs a value", name));
    }
  }
  return options;
}

Result<void> OpenOptions::check() const {
  if (!connects()) {
    GPUACTORS_TRY(parse_device_specs(embed.devices));
    return {};
  }
  GPUACTORS_TRY(detail::check_connection(connect));
  if (!embed.devices.empty() || !embed.record.empty())
    return fail(Errc::invalid_argument, "--devices and --record are for an embedded cluster: a running one, named by "
                                        "--broker or GPUACTORS_BROKER, has its own");
  return {};
}

} // namespace gpuactors
