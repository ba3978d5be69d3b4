#include <gpuactors/agent/process.hpp>
#include <gpuactors/base/files.hpp>
#include <gpuactors/cluster/detail/local_role.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <type_traits>

namespace gpuactors::detail {

namespace {

// -- the role as arguments: both ends are the same program ----------------------------------------

/// Visits the fields of a role in the order in which they are written.
template <class Visitor>
void visit_role(Visitor&& visit, LocalRole& role) {
  visit(role.parent);
  visit(role.is_broker);
  visit(role.broker.listen);
  visit(role.broker.store);
  visit(role.node.broker);
  visit(role.node.name);
  visit(role.node.devices);
  visit(role.node.cpus);
  visit(role.node.labels);
  visit(role.node.resources);
  visit(role.node.host_memory_bytes);
  visit(role.node.memory_threshold);
  visit(role.node.accelerator_root);
  visit(role.node.listening.host);
  visit(role.node.listening.bind);
  visit(role.node.listening.ports.first);
  visit(role.node.listening.ports.last);
  visit(role.node.logs);
  visit(role.node.programs);
  visit(role.node.plugins);
  visit(role.node.runtime_source);
  visit(role.node.stop_grace);
  visit(role.daemon.certificates);
  visit(role.daemon.insecure);
  visit(role.daemon.heartbeat);
  visit(role.daemon.link_timeout);
}

class RoleWriter {
public:
  void operator()(const std::string& text) {
    arguments.push_back(text);
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  void operator()(const T& number) {
    arguments.push_back(fmt::format("{}", static_cast<std::conditional_t<std::is_same_v<T, bool>, int, T>>(number)));
  }
  void operator()(const Duration& duration) {
    operator()(duration.count());
  }
  void operator()(const std::optional<std::uint64_t>& number) {
    operator()(number ? fmt::format("{}", *number) : std::string{});
  }
  void operator()(const std::vector<std::string>& texts) {
    operator()(texts.size());
    for (const auto& text : texts)
      operator()(text);
  }
  template <class T>
  void operator()(const std::map<std::string, T>& entries) {
    operator()(entries.size());
    for (const auto& [name, value] : entries) {
      operator()(name);
      operator()(value);
    }
  }

  std::vector<std::string> arguments{};
};

class RoleReader {
public:
  explicit RoleReader(const std::vector<std::string>& arguments) : arguments_(arguments) {
    // nop
  }

  void operator()(std::string& text) {
    complete = complete && next_ < arguments_.size();
    if (complete)
      text = arguments_[next_++];
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  void operator()(T& number) {
    std::string text;
    operator()(text);
    std::conditional_t<std::is_same_v<T, bool>, int, T> value{};
    const auto end = text.data() + text.size();
    complete = complete && std::from_chars(text.data(), end, value).ptr == end;
    number = static_cast<T>(value);
  }
  void operator()(Duration& duration) {
    Duration::rep count = 0;
    operator()(count);
    duration = Duration{count};
  }
  void operator()(std::optional<std::uint64_t>& number) {
    const auto here = next_;
    std::string text;
    operator()(text);
    if (text.empty())
      return number.reset();
    next_ = here;
    operator()(number.emplace());
  }
  void operator()(std::vector<std::string>& texts) {
    for (auto left = count(); left > 0 && complete; --left)
      operator()(texts.emplace_back());
  }
  template <class T>
  void operator()(std::map<std::string, T>& entries) {
    for (auto left = count(); left > 0 && complete; --left) {
      std::string name;
      operator()(name);
      operator()(entries[name]);
    }
  }

  /// Whether all fields were there so far.
  bool complete = true;

private:
  std::size_t count() {
    std::size_t count = 0;
    operator()(count);
    return count;
  }

  const std::vector<std::string>& arguments_;
  std::size_t next_ = 0;
};

// -- reports as lines -----------------------------------------------------------------------------

constexpr std::string_view report_prefix = "gpuactors-local-cluster: ";
constexpr std::array<std::string_view, 4> step_names{"began", "ready", "failed", "strayed"};

std::atomic<bool> has_begun{false};

Failure fail_beginning(std::string_view what) {
  return fail(Errc::invalid_argument,
              fmt::format("{}: a LocalCluster starts this program again as its processes, which works if main calls "
                          "gpuactors::main, run_if_worker or Cluster::open(argc, argv) before anything else",
                          what));
}

} // namespace

std::vector<std::string> to_arguments(LocalRole role) {
  RoleWriter writer;
  writer.arguments = {"worker", std::string{local_role_argument}};
  visit_role(writer, role);
  return std::move(writer.arguments);
}

Result<void> play_local_role(const std::vector<std::string>& arguments) {
  // What the workers start is free to have clusters of its own.
  ::unsetenv(local_role_variable);
  LocalRole role;
  RoleReader reader{arguments};
  visit_role(reader, role);
  if (!reader.complete)
    return fail(Errc::invalid_argument, "a process of a LocalCluster is started by that");
  die_with_parent(role.parent);
  tell({LocalReport::Step::began});
  role.daemon.notice = [](std::string_view line) {
    [[maybe_unused]] const auto written = write_all(STDERR_FILENO, fmt::format("{}\n", line));
  };
  Result<void> done;
  if (role.is_broker) {
    role.daemon.ready = [](std::string_view address) { tell({LocalReport::Step::ready, std::string{address}}); };
    done = run_broker(role.broker, role.daemon);
  } else {
    role.node.registered = [] { tell({LocalReport::Step::ready}); };
    done = run_node(role.node, role.daemon);
  }
  if (!done)
    tell({LocalReport::Step::failed, done.error().message(), done.error().code()});
  return done;
}

void tell(const LocalReport& report) {
  auto line = fmt::format("{}{} {} {}", report_prefix, step_names[static_cast<std::size_t>(report.step)],
                          static_cast<int>(report.error), report.text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  // One call, so that lines of other threads do not come into its middle.
  [[maybe_unused]] const auto written = write_all(STDOUT_FILENO, line + '\n');
}

std::optional<LocalReport> read_report(std::string_view line) {
  if (!line.starts_with(report_prefix))
    return std::nullopt;
  line.remove_prefix(report_prefix.size());
  const auto step = std::find(step_names.begin(), step_names.end(), line.substr(0, line.find(' ')));
  const auto number = line.substr(std::min(line.find(' '), line.size() - 1) + 1);
  std::uint8_t error = 0;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), error);
  if (step == step_names.end() || read.ec != std::errc{})
    return std::nullopt;
  const auto text = number.substr(std::min<std::size_t>(read.ptr - number.data() + 1, number.size()));
  return LocalReport{static_cast<LocalReport::Step>(step - step_names.begin()), std::string{text},
                     errc_from_number(error)};
}

void note_beginning() noexcept {
  has_begun = true;
}

Result<void> check_beginning() {
  if (std::getenv(local_role_variable) != nullptr) {
    const auto strayed = fail_beginning("this process was started as a part of a LocalCluster and does not know it");
    tell({LocalReport::Step::strayed});
    return strayed;
  }
  if (!has_begun)
    return fail_beginning("this program has not asked what it was started for");
  return {};
}

} // namespace gpuactors::detail
