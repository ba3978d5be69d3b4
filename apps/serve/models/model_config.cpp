#include "model_config.hpp"

#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/suggest.hpp>
#include <gpuactors/base/units.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <map>

namespace serve {

using gpuactors::Duration;
using gpuactors::Errc;
using gpuactors::Result;

namespace {

constexpr auto needs_file = "NAME=FILE is expected, such as digits=checkpoint.safetensors";

/// The longest time that may be asked for, in seconds.
constexpr double longest_seconds = 86'400;

template <class T>
Result<T> read_number(std::string_view key, const std::string& text, T least, T most) {
  T value{};
  const auto* end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || read != end || !(value >= least && value <= most))
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("{} is \"{}\": a number from {} to {} is expected", key, text, least, most));
  return value;
}

Result<Duration> read_seconds(std::string_view key, const std::string& text, double unit, double least) {
  GPUACTORS_LET(value, read_number<double>(key, text, least, longest_seconds / unit));
  return gpuactors::from_seconds(value * unit);
}

/// A key, and how it is set.
struct Key : ModelKey {
  Key(std::string_view its_name, std::string_view its_value, std::string_view its_help,
      std::function<Result<void>(ModelConfig&, std::string_view, const std::string&)> its_set, bool it_repeats = false)
    : ModelKey{its_name, its_value, its_help, it_repeats}, set(std::move(its_set)) {
    // nop
  }

  std::function<Result<void>(ModelConfig&, std::string_view, const std::string&)> set;
};

/// A key that sets a whole number.
template <class T>
Key number_key(std::string_view name, std::string_view help, T ModelConfig::*member, std::uint64_t least,
               std::uint64_t most) {
  return {name, "N", help, [=](ModelConfig& config, std::string_view key, const std::string& text) -> Result<void> {
            GPUACTORS_LET(value, read_number<std::uint64_t>(key, text, least, most));
            config.*member = static_cast<std::size_t>(value);
            return {};
          }};
}

/// A key that sets a time.
template <class T>
Key time_key(std::string_view name, std::string_view value, std::string_view help, T ModelConfig::*member, double unit,
             double least) {
  return {name, value, help, [=](ModelConfig& config, std::string_view key, const std::string& text) -> Result<void> {
            GPUACTORS_LET(time, read_seconds(key, text, unit, least));
            config.*member = time;
            return {};
          }};
}

Result<void> set_gpus(ModelConfig& config, std::string_view key, const std::string& text) {
  GPUACTORS_LET(value, read_number<double>(key, text, 0.0001, 1));
  GPUACTORS_TRY(gpuactors::Share::from_double(value, key));
  config.gpus = value;
  return {};
}

Result<void> set_memory(ModelConfig& config, std::string_view key, const std::string& text) {
  const auto bytes = gpuactors::parse_bytes(text);
  if (!bytes)
    return gpuactors::fail(Errc::invalid_argument, fmt::format("{}: {}", key, bytes.error().message()));
  config.memory_bytes = *bytes;
  return {};
}

Result<void> set_actor(ModelConfig& config, std::string_view key, const std::string& text) {
  if (text.size() > gpuactors::limits::name_length)
    return gpuactors::fail(Errc::invalid_argument, fmt::format("{} has {} bytes: a type has at most {}", key,
                                                               text.size(), gpuactors::limits::name_length));
  config.actor = text;
  return {};
}

Result<void> set_isolation(ModelConfig& config, std::string_view key, const std::string& text) {
  if (text != "thread" && text != "process")
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("{} is \"{}\": thread or process is expected", key, text));
  config.isolation = text == "process" ? gpuactors::Isolation::process : gpuactors::Isolation::thread;
  return {};
}

Result<void> set_in_place(ModelConfig& config, std::string_view key, const std::string& text) {
  if (text != "true" && text != "false")
    return gpuactors::fail(Errc::invalid_argument, fmt::format("{} is \"{}\": true or false is expected", key, text));
  config.in_place = text == "true";
  return {};
}

/// A key whose values are NAME=VALUE, one for each name.
Key pairs_key(std::string_view name, std::string_view help, std::map<std::string, std::string> ModelConfig::*member) {
  return {name, "K=V", help,
          [=](ModelConfig& config, std::string_view key, const std::string& text) -> Result<void> {
            const auto equals = text.find('=');
            if (equals == std::string::npos || equals == 0)
              return gpuactors::fail(Errc::invalid_argument,
                                     fmt::format("{} is \"{}\": {}=NAME=VALUE is expected", key, text, key));
            (config.*member)[text.substr(0, equals)] = text.substr(equals + 1);
            return {};
          },
          true};
}

const std::vector<Key>& keys() {
  constexpr std::uint64_t many = 4'096;
  static const std::vector<Key> all{
      {"actor", "TYPE", "actor type of the replicas, from the nodes' program or plugins; networks when left out",
       set_actor},
      pairs_key("set", "a setting for the constructor of such an actor; may be repeated", &ModelConfig::settings),
      pairs_key("label", "label of the nodes that replicas may run on; may be repeated", &ModelConfig::labels),
      {"isolation", "thread|process", "process: replicas have processes of their own, in a cluster of processes",
       set_isolation},
      {"gpus", "F", "share of one device for each replica, up to 1; 0.25 when left out", set_gpus},
      {"memory", "BYTES", "its device memory, such as 2GiB; its share's part when left out", set_memory},
      number_key("replicas", "replicas at the start; 1 when left out", &ModelConfig::replicas, 1, many),
      number_key("min-replicas", "the least that idle ones are given back to", &ModelConfig::min_replicas, 1, many),
      number_key("max-replicas", "the most that a long queue brings", &ModelConfig::max_replicas, 1, many),
      time_key("idle-after", "S", "seconds until an idle replica goes; 30 when left out", &ModelConfig::idle_after, 1,
               0.1),
      time_key("start-timeout", "S", "seconds that the start of a replica may take; 600 when left out",
               &ModelConfig::start_timeout, 1, 1),
      time_key("replica-wait", "S",
               "seconds that requests wait for a replica where none serves, once a start has failed; 30 when left out",
               &ModelConfig::replica_wait, 1, 0),
      {"in-place", "true|false",
       "true: a new version that finds no room takes the place of an only replica, and nobody is answered meanwhile",
       set_in_place},
      number_key("max-batch", "rows of a batch; 32 when left out", &ModelConfig::max_batch, 1, 65'536),
      number_key("max-queue", "requests that may wait; 1024 when left out", &ModelConfig::max_queue, 1, 1'000'000),
      time_key("max-delay", "MS", "milliseconds that a batch waits for more rows; 0 when left out",
               &ModelConfig::max_delay, 1e-3, 0),
      number_key("ahead", "batches sent to a replica before the one that runs is done: 0 or 1; 0 when left out",
                 &ModelConfig::ahead, 0, 1),
      number_key("max-running", "requests that a replica of a generative model runs at once; 16 when left out",
                 &ModelConfig::max_running, 1, many),
      number_key("max-sequences", "sequences that may go on at once; 1024 when left out", &ModelConfig::max_sequences,
                 1, 65'536),
      time_key("sequence-idle", "S", "seconds without a request until a sequence is forgotten; 60 when left out",
               &ModelConfig::sequence_idle, 1, 0.1),
      time_key("timeout", "MS", "milliseconds in which a request is answered unless it says; none when left out",
               &ModelConfig::timeout, 1e-3, 1e-3),
      time_key("queue-timeout", "MS", "milliseconds that a request may wait for its turn; no limit when left out",
               &ModelConfig::queue_timeout, 1e-3, 1e-3),
      number_key("priority",
                 "of requests that name none: 1 is served before 2, as in Triton's protocol; 2 when left out",
                 &ModelConfig::priority, 1, 1'000'000),
  };
  return all;
}

bool is_model_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-'
           || c == '.';
  };
  // Names of replicas are longer than those of their models.
  return !name.empty() && name.size() <= gpuactors::limits::name_length / 2
         && std::all_of(name.begin(), name.end(), fits) && name.front() != '.';
}

} // namespace

batching::ScalingLimits ModelConfig::scaling() const {
  batching::ScalingLimits limits;
  limits.min_replicas = min_replicas.value_or(std::min(replicas, max_replicas.value_or(replicas)));
  limits.max_replicas = max_replicas.value_or(std::max(replicas, limits.min_replicas));
  limits.idle_after = idle_after;
  return limits;
}

std::vector<ModelKey> model_keys() {
  return {keys().begin(), keys().end()};
}

Result<void> set_key(ModelConfig& config, std::string_view name, const std::string& value) {
  for (const auto& key : keys())
    if (key.name == name)
      return key.set(config, name, value);
  std::vector<std::string> known;
  for (const auto& key : keys())
    known.emplace_back(key.name);
  return gpuactors::fail(Errc::invalid_argument,
                         fmt::format("a model has no key \"{}\"{}", name, gpuactors::did_you_mean(name, known)));
}

Result<ModelConfig> parse_model(const std::string& text, const ModelConfig& defaults) {
  auto config = defaults;
  const auto wrong = [&text](const std::string& what) {
    return gpuactors::fail(Errc::invalid_argument, fmt::format("the model \"{}\": {}", text, what));
  };
  std::size_t begin = 0;
  for (bool first = true; begin <= text.size(); first = false) {
    const auto end = std::min(text.find(',', begin), text.size());
    const auto part = text.substr(begin, end - begin);
    begin = end + 1;
    const auto equals = std::min(part.find('='), part.size());
    const auto names_no_file = first && equals == part.size() && !part.empty();
    if (!names_no_file && equals + 1 >= part.size())
      return wrong(first ? needs_file : fmt::format("\"{}\" is no key=value, such as replicas=2", part));
    const auto name = part.substr(0, equals);
    const auto value = names_no_file ? "" : part.substr(equals + 1);
    if (first) {
      if (auto fits = check_name(name); !fits)
        return wrong(fits.error().message());
      config.name = name;
      config.file = value;
    } else if (auto set = set_key(config, name, value); !set) {
      return wrong(set.error().message());
    }
  }
  if (config.file.empty() && config.actor.empty())
    return wrong(needs_file);
  if (auto fits = check(config); !fits)
    return wrong(fits.error().message());
  return config;
}

Result<void> check_name(std::string_view name) {
  if (is_model_name(name))
    return {};
  return gpuactors::fail(Errc::invalid_argument,
                         fmt::format("the name of a model has 1 to {} letters, digits, - _ and ., and does not begin "
                                     "with a dot",
                                     gpuactors::limits::name_length / 2));
}

Result<void> check(const ModelConfig& config) {
  const auto least = config.min_replicas;
  const auto most = config.max_replicas;
  if (least && most && *least > *most)
    return gpuactors::fail(
        Errc::invalid_argument,
        fmt::format("min-replicas is {} and max-replicas {}: the least is above the most", *least, *most));
  if (config.actor.empty() && !config.settings.empty())
    return gpuactors::fail(Errc::invalid_argument, fmt::format("set={}=... is for actor types: name one by actor=TYPE",
                                                               config.settings.begin()->first));
  return {};
}

} // namespace serve
