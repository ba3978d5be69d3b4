// gpuactors-serve: an inference server whose models run in actors on shares of GPUs.
#include "models/deployment.hpp"
#include "models/model_loader.hpp"
#include "options.hpp"

#include <gpuactors/base/service_manager.hpp>
#include <gpuactors/gpuactors.hpp>

#include <apps/cli/command_line.hpp>
#include <apps/cli/file_kind.hpp>
#include <apps/serve/protocol/data_type.hpp>
#include <apps/serve/run_beside.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace serve {

namespace {

using gpuactors::Clock;
using gpuactors::deadline_after;
using gpuactors::Result;
using gpuactors::ServiceManager;
using gpuactors::StopSignals;

constexpr int exit_failure = 1;
constexpr int exit_bad_input = 2;

/// How long answers may take on their way to clients at least, when the models have taken all the time there is.
constexpr auto last_words = std::chrono::seconds{2};

/// How often it is looked for a signal while models are loaded.
constexpr auto attention = std::chrono::milliseconds{50};

/// How often it is looked whether the models file has changed.
constexpr auto renewal = std::chrono::seconds{2};

/// One line on standard output, at once.
void say(const std::string& line) {
  std::cout << line << std::endl;
}

/// One line on standard error, with the time as daemons write it. In one piece: several threads may do so.
void note(const std::string& what) {
  const auto now = fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()));
  std::cerr << fmt::format("{:%Y-%m-%dT%H:%M:%SZ} {}\n", now, what) << std::flush;
}

void say_where(const Fronts& fronts, const FrontOptions& options) {
  const auto* with = options.tls ? ", with TLS" : "";
  const auto* tokens = options.token_file.empty() ? "" : ", for those with a token";
  if (const auto http = fronts.http())
    say(fmt::format("HTTP at {}://{}{}", options.tls ? "https" : "http", to_string(*http), tokens));
  if (const auto grpc = fronts.grpc())
    say(fmt::format("gRPC at {}{}{}", to_string(*grpc), with, tokens));
}

/// "model digits, version 1: x FP32 [-1,64] to y FP32 [-1,10]; 2 replicas of 0.25; batches of up to 32 rows"
Result<void> say_what(const ModelTable& table, const std::string& name) {
  GPUACTORS_LET(model, table.describe(name, ""));
  const auto list = [](const std::vector<TensorSpec>& specs) {
    std::string text;
    for (const auto& spec : specs)
      text += fmt::format("{}{} {} [{}]", text.empty() ? "" : " and ", spec.name, to_string(spec.type),
                          fmt::join(spec.shape, ","));
    return text;
  };
  say(fmt::format("model {}, version {}: {} to {}{}; {} of {}; {}", model.name, model.versions.back(),
                  list(model.inputs), model.generative ? "a stream of " : "", list(model.outputs),
                  model.replicas == 1 ? "1 replica" : fmt::format("{} replicas", model.replicas), model.gpus,
                  model.generative ? fmt::format("up to {} requests at once in each", model.max_running)
                                   : fmt::format("batches of up to {} rows", model.max_batch)));
  return {};
}

Result<std::unique_ptr<ModelLoader>> load_models(ModelTable& table, const ServeOptions& options) {
  std::vector<std::string> names;
  for (const auto& model : options.models)
    names.push_back(model.name);
  for (const auto& model : options.models_of_file)
    names.push_back(model.config.name);
  LoaderOptions how;
  how.keeps_going = options.keeps_going;
  how.loaded = [&table](const std::string& name) {
    if (const auto said = say_what(table, name); !said)
      say(said.error().message()); // a client has unloaded it already
  };
  how.failed = [](const std::string& sentence) { note(sentence); };
  return ModelLoader::start(table, std::move(names), std::move(how));
}

/// Has the models file read again when it has changed, and the loader do what it says; null without a file.
Result<std::unique_ptr<Renewal>> watch_models(const ServeOptions& options, ModelLoader& loader) {
  if (!options.models_file)
    return std::unique_ptr<Renewal>{};
  const auto renew = [file = *options.models_file, known = options.models_of_file,
                      &loader]() mutable -> Result<std::string> {
    GPUACTORS_LET(models, file.read());
    auto changes = changes_between(known, models);
    auto text = fmt::format("the models file {} was read again: {} new or changed, {} gone", file.path.string(),
                            changes.set.size(), changes.gone.size());
    known = std::move(models);
    loader.change(std::move(changes));
    return text;
  };
  std::vector<Renewal::Watched> watched;
  watched.push_back(Renewal::watched({options.models_file->path}, options.models_file_stamps, renew, note));
  return Renewal::start(std::move(watched), renewal);
}

/// Closes the table of models at the end of its scope.
struct CloseFirst {
  ModelTable& table;

  ~CloseFirst() {
    table.close(gpuactors::TimePoint{});
  }
};

/// Waits for a signal. The service manager hears meanwhile that the server is alive, as long as it takes turns.
void wait_for_signal(const StopSignals& signals, const Fronts& fronts, const ServiceManager& manager) {
  const auto beat = manager.beat();
  if (!beat)
    return signals.wait();
  const auto turned = std::make_shared<std::atomic<bool>>(true);
  while (!signals.wait_for(*beat)) {
    if (turned->exchange(false)) {
      manager.alive();
      fronts.turn([turned] { *turned = true; });
    }
  }
}

/// Serves on for a while, so that nobody who has not noticed yet is refused. A second signal ends the process.
void leave(Fronts& fronts, gpuactors::Duration time) {
  fronts.leave();
  if (time <= gpuactors::Duration::zero())
    return;
  say("leaving");
  std::this_thread::sleep_for(time);
}

/// Ends what servers of the deployment have left.
Result<void> end_replicas(const ServeOptions& options) {
  GPUACTORS_LET(cluster, gpuactors::Cluster::open(options.cluster));
  GPUACTORS_LET(count, end_deployment(cluster, options.table.deployment));
  say(fmt::format("{} of deployment {} ended", count == 1 ? "1 replica" : fmt::format("{} replicas", count),
                  options.table.deployment));
  return {};
}

/// Loads the plugins. What the loader says of a program would tell nobody what to do with it.
Result<void> load_plugins(const std::vector<std::string>& files) {
  namespace cli = gpuactors::cli;
  for (const auto& file : files)
    if (cli::kind_of(file) == cli::FileKind::program)
      return gpuactors::fail(gpuactors::Errc::invalid_argument,
                             fmt::format("--plugin {0} is a program, not a shared library: have a node run it "
                                         "(gpuactors node --program {0}), and serve from its cluster (--broker)",
                                         cli::shell_quoted(file)));
  return gpuactors::load_plugins(files);
}

/// Serves until a signal comes.
Result<void> serve(const ServeOptions& options, const StopSignals& signals) {
  GPUACTORS_TRY(load_plugins(options.plugins));
  GPUACTORS_LET(cluster, gpuactors::Cluster::open(options.cluster));
  auto table_options = options.table;
  table_options.wait_for_nodes = options.cluster.connects();
  table_options.notice = note;
  ModelTable table{cluster, std::move(table_options)};
  for (const auto& model : options.models)
    GPUACTORS_TRY(table.add(model));
  for (const auto& model : options.models_of_file)
    table.set(model);
  auto front_options = options.fronts;
  front_options.notice = note;
  // Listening first: who asks whether it is ready gets an answer while models are loaded.
  GPUACTORS_LET(fronts, Fronts::open(table, std::move(front_options)));
  // Before the fronts, whose end waits for models that clients have loaded, also when this function returns early.
  const CloseFirst close_first{table};
  say_where(fronts, options.fronts);
  const auto manager = ServiceManager::from_environment();
  manager.status("loads models");
  GPUACTORS_LET(loader, load_models(table, options));
  GPUACTORS_LET(watch, watch_models(options, *loader));
  while (!signals.came() && !loader->wait_for(attention))
    continue;
  bool serves = false;
  if (!signals.came()) {
    GPUACTORS_LET(missing, loader->outcome());
    const auto ready = missing == 0 ? std::string{"ready"}
                                    : fmt::format("ready, but for {} of {} models", missing,
                                                  options.models.size() + options.models_of_file.size());
    say(ready);
    manager.ready(ready);
    wait_for_signal(signals, fronts, manager);
    serves = true;
  }
  manager.stopping();
  if (serves)
    leave(fronts, options.leave);
  say("ending");
  watch = nullptr;
  // Both at once: while models answer what they have accepted, clients are told to go elsewhere with what comes next.
  // What is still being loaded is given up.
  const auto until = deadline_after(Clock::now(), options.table.drain);
  auto closing = run_beside([&] { table.close(until); });
  fronts.stop(std::max<gpuactors::Duration>(until - Clock::now(), {}) + last_words);
  if (closing.joinable())
    closing.join();
  return {};
}

int run(int argc, const char* const* argv) {
  const StopSignals signals;
  // A client that closes its connection is no reason to end.
  ::signal(SIGPIPE, SIG_IGN);
  const auto options = parse_options(argc, argv);
  const auto done = !options                      ? Result<void>{gpuactors::fail(options.error())}
                    : !*options                   ? Result<void>{}
                    : (*options)->ends_deployment ? end_replicas(**options)
                                                  : serve(**options, signals);
  if (done)
    return 0;
  std::cerr << "gpuactors-serve: " << done.error().message() << std::endl;
  // Who starts it again may tell what cannot go better the next time.
  return done.error().remedy() == gpuactors::Remedy::give_up ? exit_bad_input : exit_failure;
}

} // namespace

} // namespace serve

int main(int argc, char** argv) {
  if (const auto code = gpuactors::run_if_worker(argc, argv))
    return *code;
  return serve::run(argc, argv);
}
