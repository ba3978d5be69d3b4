// gpuactors submit: runs a task on the resources that it asks for, and prints its reply.
#include "command.hpp"
#include "input.hpp"
#include "progress.hpp"
#include "resource_options.hpp"
#include "types.hpp"

#include <gpuactors/gpuactors.hpp>

#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <optional>

namespace gpuactors::cli {

namespace {

constexpr std::int64_t most_copies = 10'000;

/// The arguments as they were typed.
struct SubmitArguments {
  ClusterOptions cluster;
  std::string task;
  std::string input;
  ResourceOptions resources;
  std::optional<std::string> timeout;
  std::optional<std::string> max_retries;
  std::string count = "1";
};

Result<Options> submit_options(const SubmitArguments& arguments) {
  GPUACTORS_LET(options, arguments.resources.read());
  if (arguments.timeout) {
    GPUACTORS_LET(timeout, parse_seconds("--timeout", *arguments.timeout));
    options.deadline = timeout;
  }
  GPUACTORS_LET(max_retries, parse_times("--max-retries", arguments.max_retries));
  options.max_retries = max_retries;
  return std::move(options);
}

/// Prints the replies in the order of submission. Waits for all of them, even after one has failed.
Result<void> print_replies(const DescribedTypes& types, std::vector<Future<Payload>> futures) {
  std::optional<Error> first;
  std::size_t failed = 0;
  for (auto& future : futures) {
    auto reply = future.get();
    auto json = reply ? types.messages().to_json(*reply) : Result<std::string>{fail(reply.error())};
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

Result<void> run_submit(const SubmitArguments& arguments) {
  GPUACTORS_TRY(arguments.cluster.check());
  GPUACTORS_LET(options, submit_options(arguments));
  GPUACTORS_LET(count, parse_integer("--count", arguments.count, 1, most_copies));
  std::optional<Cluster> cluster;
  GPUACTORS_LET(types, open_types(arguments.cluster, cluster, arguments.task));
  GPUACTORS_LET(task, types.find_task(arguments.task));
  GPUACTORS_LET(input, read_message(types, task->input(), arguments.input));
  fill_in(options, task->needs());
  if (!cluster) {
    GPUACTORS_LET(opened, arguments.cluster.open());
    cluster.emplace(std::move(opened));
  }
  std::vector<Future<Payload>> futures;
  for (std::int64_t i = 0; i < count; ++i)
    futures.push_back(cluster->submit_payload(arguments.task, input, options));
  show_progress(*cluster, futures);
  return print_replies(types, std::move(futures));
}

void add_task_options(CLI::App& parser, SubmitArguments& arguments) {
  parser.add_option("--timeout", arguments.timeout, "The answer must come within this time. Default: no limit")
      ->type_name("SECONDS");
  parser
      .add_option("--max-retries", arguments.max_retries,
                  "How often it is repeated when it was lost with its process, device or node, or always. Default: 0")
      ->type_name("N|always");
  parser.add_option("--count", arguments.count, "Submit so many of it at once, and print a reply each")->type_name("N");
}

} // namespace

Command add_submit(CLI::App& program) {
  auto arguments = std::make_shared<SubmitArguments>();
  auto* parser = program.add_subcommand("submit", "Run a task and print its reply as JSON");
  parser->add_option("task", arguments->task, "Task type; gpuactors types lists them")->required()->type_name("TASK");
  parser
      ->add_option("input", arguments->input,
                   "The task's input as JSON, @FILE to read it from a file, - from standard input. Default: {}")
      ->type_name(message_argument);
  arguments->resources.add_to(*parser);
  add_task_options(*parser, *arguments);
  arguments->cluster.add_to(*parser);
  parser->footer(
      "--gpus alone brings its share of the device's memory, --memory alone the least share that covers it.\n\n"
      "Examples:\n"
      "  gpuactors submit echo '{\"text\":\"hello\"}'\n"
      "  gpuactors submit matmul --gpus 1 '{\"n\":2000}'\n"
      "  gpuactors submit leak --memory 64MiB --devices host:1x1GiB '{\"bytes\":1048576}'\n"
      "  gpuactors submit sleep --gpus 0.25 --count 4 '{\"seconds\":0.5}'     four at once on one device\n"
      "  echo '{\"n\":1000}' | gpuactors submit gram --gpus 0.5 -\n"
      "  gpuactors submit gpuactors.source_kernel --gpus 1 @kernel.json       CUDA C++ that is compiled where it runs");
  return {parser, [arguments] { return run_submit(*arguments); }};
}

} // namespace gpuactors::cli
