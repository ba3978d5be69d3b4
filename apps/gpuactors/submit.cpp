// gpuactors submit: runs a task on the resources that it asks for, and prints its reply.
#include "cluster_options.hpp"
#include "command.hpp"
#include "input.hpp"
#include "progress.hpp"

#include <gpuactors/base/units.hpp>
#include <gpuactors/gpuactors.hpp>

#include <fmt/format.h>

#include <iostream>
#include <limits>
#include <memory>
#include <optional>

namespace gpuactors::cli {

namespace {

constexpr std::int64_t most_copies = 10'000;
constexpr double longest_timeout = 366.0 * 86'400;

/// The arguments as they were typed.
struct Arguments {
  ClusterOptions cluster;
  std::string task;
  std::string input;
  std::optional<std::string> gpus;
  std::optional<std::string> memory;
  std::optional<std::string> cpus;
  std::string accelerator_type;
  std::string node;
  std::vector<std::string> labels;
  std::vector<std::string> resources;
  std::optional<std::string> priority;
  std::optional<std::string> timeout;
  std::string count = "1";
};

/// Reads the amounts, so that a wrong one is refused before anything starts.
Result<void> read_amounts(const Arguments& arguments, Options& options) {
  if (arguments.gpus) {
    GPUACTORS_LET(gpus, parse_number("--gpus", *arguments.gpus));
    GPUACTORS_TRY(parse_gpus(gpus));
    options.gpus = gpus;
  }
  if (arguments.memory) {
    GPUACTORS_LET(bytes, parse_bytes(*arguments.memory));
    options.memory_bytes = bytes;
  }
  if (arguments.cpus) {
    GPUACTORS_LET(cpus, parse_number("--cpus", *arguments.cpus));
    GPUACTORS_TRY(Share::from_double(cpus, "cpus"));
    options.cpus = cpus;
  }
  GPUACTORS_LET(resources, parse_pairs("--resource", arguments.resources));
  for (const auto& [name, text] : resources) {
    GPUACTORS_LET(amount, parse_number("--resource " + name, text));
    GPUACTORS_TRY(Share::from_double(amount, "resource " + name));
    options.resources[name] = amount;
  }
  return {};
}

Result<Options> read_options(const Arguments& arguments) {
  Options options;
  GPUACTORS_TRY(read_amounts(arguments, options));
  options.accelerator_type = arguments.accelerator_type;
  options.node = arguments.node;
  GPUACTORS_LET(labels, parse_pairs("--label", arguments.labels));
  options.labels.insert(labels.begin(), labels.end());
  if (arguments.priority) {
    using Limits = std::numeric_limits<std::int32_t>;
    GPUACTORS_LET(priority, parse_integer("--priority", *arguments.priority, Limits::min(), Limits::max()));
    options.priority = static_cast<int>(priority);
  }
  if (arguments.timeout) {
    GPUACTORS_LET(seconds, parse_number("--timeout", *arguments.timeout));
    if (!(seconds > 0 && seconds <= longest_timeout))
      return fail(Errc::invalid_argument,
                  fmt::format("--timeout is {}: more than 0 and at most {} seconds are expected", *arguments.timeout,
                              longest_timeout));
    options.deadline = std::chrono::ceil<Duration>(std::chrono::duration<double>(seconds));
  }
  return options;
}

Result<Payload> read_input(const Arguments& arguments, const TaskType& task) {
  const auto from_file = arguments.input == "-" || arguments.input.starts_with("@");
  if (!from_file)
    return payload_from_json(*task.input, arguments.input);
  const auto path = arguments.input == "-" ? arguments.input : arguments.input.substr(1);
  GPUACTORS_LET(text, read_document(path));
  auto payload = payload_from_json(*task.input, text);
  if (!payload)
    return fail(payload.error().code(),
                fmt::format("{}: {}", path == "-" ? "standard input" : path, payload.error().message()));
  return payload;
}

/// Prints the replies in the order of submission. All are waited for, also after one has failed.
Result<void> print_replies(std::vector<Future<Payload>> futures) {
  std::optional<Error> first;
  std::size_t failed = 0;
  for (auto& future : futures) {
    auto reply = future.get();
    auto json = reply ? payload_to_json(*reply) : Result<std::string>{fail(reply.error())};
    if (json)
      std::cout << *json << '\n';
    else if (++failed == 1)
      first = json.error();
  }
  if (failed == 0)
    return {};
  if (futures.size() == 1)
    return fail(*first);
  return fail(first->code(),
              fmt::format("{} of {} tasks failed, the first one: {}", failed, futures.size(), first->message()));
}

Result<void> run_submit(const Arguments& arguments) {
  GPUACTORS_TRY(arguments.cluster.check());
  GPUACTORS_TRY(TypeRegistry::global().check());
  GPUACTORS_LET(task, TypeRegistry::global().find_task(arguments.task));
  GPUACTORS_LET(options, read_options(arguments));
  GPUACTORS_LET(count, parse_integer("--count", arguments.count, 1, most_copies));
  GPUACTORS_LET(input, read_input(arguments, *task));
  GPUACTORS_LET(cluster, arguments.cluster.open());
  std::vector<Future<Payload>> futures;
  for (std::int64_t i = 0; i < count; ++i)
    futures.push_back(cluster.submit_payload(arguments.task, input, options));
  show_progress(cluster, futures);
  return print_replies(std::move(futures));
}

void add_resource_options(CLI::App& parser, Arguments& arguments) {
  parser.add_option("--gpus", arguments.gpus, "Devices: a share below 1 in steps of 0.0001, or a whole number")
      ->type_name("F");
  parser.add_option("--memory", arguments.memory, "Device memory on each device, such as 6GiB")->type_name("BYTES");
  parser.add_option("--cpus", arguments.cpus, "CPUs of the node, in steps of 0.0001")->type_name("F");
  parser.add_option("--accelerator-type", arguments.accelerator_type, "Kind of device, such as H200")->type_name("T");
  parser.add_option("--node", arguments.node, "Node it must run on")->type_name("N");
  parser.add_option("--label", arguments.labels, "Label that the node must have; may be repeated")
      ->type_name("K=V")
      ->allow_extra_args(false);
  parser.add_option("--resource", arguments.resources, "Another countable resource of the node; may be repeated")
      ->type_name("NAME=N")
      ->allow_extra_args(false);
  parser.add_option("--priority", arguments.priority, "Higher is served first; 0 when left out")->type_name("P");
  parser.add_option("--timeout", arguments.timeout, "The answer must come within this time; no limit when left out")
      ->type_name("SECONDS");
  parser.add_option("--count", arguments.count, "Submit so many of it at once, and print a reply each")->type_name("N");
}

} // namespace

Command add_submit(CLI::App& program) {
  auto arguments = std::make_shared<Arguments>();
  auto* parser = program.add_subcommand("submit", "Run a task and print its reply as JSON");
  parser->add_option("task", arguments->task, "Task type; gpuactors types lists them")->required()->type_name("TASK");
  parser
      ->add_option("input", arguments->input,
                   "The task's input as JSON, @FILE to read it from a file, - from standard input; left out: {}")
      ->type_name("JSON|@FILE|-");
  add_resource_options(*parser, *arguments);
  arguments->cluster.add_to(*parser);
  parser->footer(
      "--gpus alone brings its share of the device's memory, --memory alone the least share that covers it.\n\n"
      "Examples:\n"
      "  gpuactors submit echo '{\"text\":\"hello\"}'\n"
      "  gpuactors submit matmul --gpus 1 '{\"n\":2000}'\n"
      "  gpuactors submit leak --memory 64MiB --devices host:1x1GiB '{\"bytes\":1048576}'\n"
      "  gpuactors submit sleep --gpus 0.25 --count 4 '{\"seconds\":0.5}'     four at once on one device\n"
      "  echo '{\"n\":1000}' | gpuactors submit gram --gpus 0.5 -");
  return {parser, [arguments] { return run_submit(*arguments); }};
}

} // namespace gpuactors::cli
