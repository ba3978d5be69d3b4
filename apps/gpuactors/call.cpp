// gpuactors call: calls a method of an actor, and prints its reply.
#include "actor_argument.hpp"
#include "command.hpp"
#include "input.hpp"
#include "types.hpp"

#include <gpuactors/gpuactors.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

namespace gpuactors::cli {

namespace {

/// The arguments as they were typed.
struct CallArguments {
  ClusterOptions cluster;
  ActorArgument actor;
  std::string method;
  std::string input;
  std::optional<std::string> timeout;
};

/// Prints one line for each item, as soon as it has arrived.
Result<void> print_items(const DescribedTypes& types, StreamReader<Payload> items) {
  for (;;) {
    GPUACTORS_LET(item, items.next(Duration::max()));
    if (!item)
      return {};
    GPUACTORS_LET(json, types.messages().to_json(*item));
    std::cout << json << std::endl;
  }
}

Result<void> run_call(const CallArguments& arguments) {
  std::optional<Duration> timeout;
  if (arguments.timeout) {
    GPUACTORS_LET(seconds, parse_seconds("--timeout", *arguments.timeout));
    timeout = seconds;
  }
  GPUACTORS_TRY(arguments.cluster.check());
  std::optional<Cluster> cluster;
  GPUACTORS_LET(known, open_types(arguments.cluster, cluster));
  // The timeout covers both the wait until the actor runs and the call, but not the time that the input takes to come.
  const auto start = Clock::now();
  GPUACTORS_LET(key, key_of_living(*cluster, arguments.actor));
  GPUACTORS_LET(actor, cluster->find(key, timeout.value_or(limits::call_deadline)));
  const auto spent = Clock::now() - start;
  const auto left = [spent](Duration limit) { return std::max(Duration::zero(), limit - spent); };
  // Its node may have come back to a restarted broker since.
  auto types = known;
  if (!types.find_actor(actor.type())) {
    GPUACTORS_LET(now, cluster->described_types(actor.type()));
    types = now;
  }
  GPUACTORS_LET(type, types.find_actor(actor.type()));
  GPUACTORS_LET(method, DescribedTypes::find_method(*type, arguments.method));
  GPUACTORS_LET(input, read_message(types, method->input(), arguments.input));
  if (method->streamed())
    return print_items(
        types, actor.stream_payload(method->name(), std::move(input), timeout ? left(*timeout) : Duration::max()));
  GPUACTORS_LET(
      reply, actor.call_payload(method->name(), std::move(input), left(timeout.value_or(limits::call_deadline))).get());
  GPUACTORS_LET(json, types.messages().to_json(reply));
  std::cout << json << '\n';
  return {};
}

} // namespace

Command add_call(CLI::App& program) {
  auto arguments = std::make_shared<CallArguments>();
  auto* parser = program.add_subcommand("call", "Call a method of an actor and print its reply as JSON");
  arguments->actor.add_to(*parser)->required();
  parser->add_option("method", arguments->method, "The method; gpuactors types lists them")
      ->required()
      ->type_name("METHOD");
  parser
      ->add_option("input", arguments->input,
                   "The method's input as JSON, @FILE to read it from a file, - from standard input. Default: {}")
      ->type_name(message_argument);
  parser
      ->add_option(
          "--timeout", arguments->timeout,
          "The answer must come within this time, waiting for the actor included. Default: 60, and no limit for a "
          "stream")
      ->type_name("SECONDS");
  arguments->cluster.add_to(*parser, ClusterOptions::Kinds::running);
  parser->footer("A streamed reply is printed item by item, one line each.\n\n"
                 "Examples:\n"
                 "  gpuactors call c0 add '{\"n\":5}' --broker 127.0.0.1:7711\n"
                 "  gpuactors call c0 steps '{\"n\":3}' --broker 127.0.0.1:7711     three lines\n"
                 "  echo '{\"bytes\":1048576}' | gpuactors call h0 allocate - --timeout 5 --broker 127.0.0.1:7711");
  return {parser, [arguments] { return run_call(*arguments); }};
}

} // namespace gpuactors::cli
