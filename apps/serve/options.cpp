#include "options.hpp"

#include "models/deployment.hpp"

#include <apps/cli/cluster_options.hpp>
#include <apps/cli/usage.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace serve {

using gpuactors::Errc;
using gpuactors::Result;

namespace {

constexpr auto default_http = "127.0.0.1:8000";
constexpr auto default_grpc = "127.0.0.1:8001";

/// The options as they were typed.
struct Typed {
  std::vector<std::string> models;
  std::string models_file;
  /// In the order of the command line.
  std::vector<std::pair<std::string, std::string>> keys;
  std::vector<std::string> plugins;
  std::string http;
  std::string grpc;
  std::string token_file;
  std::string request_log;
  std::string tls_cert;
  std::string tls_key;
  std::string load_paths;
  std::string deployment;
  bool end_deployment = false;
  double drain_seconds = 30;
  double leave_seconds = 0;
  double load_wait = 10;
  bool keep_going = false;
  gpuactors::OpenOptions cluster = gpuactors::OpenOptions::from_environment();
};

constexpr auto examples =
    "Without a GPU, networks run on this machine's cores, as a host device.\n\n"
    "With OTEL_EXPORTER_OTLP_ENDPOINT=http://HOST:4318 in its environment, and its nodes', requests are traced there "
    "(OpenTelemetry).\n\n"
    "Examples:\n"
    "  gpuactors-serve --model digits=checkpoint.safetensors\n"
    "      one model, HTTP on 127.0.0.1:8000 and gRPC on 127.0.0.1:8001\n"
    "  gpuactors-serve --model digits=checkpoint.safetensors --gpus 0.25 --replicas 2 --http 127.0.0.1:8000\n"
    "      two replicas, each on a quarter of a device, over HTTP only\n"
    "  gpuactors-serve --model a=a.safetensors,gpus=0.5 --model b=b.safetensors,max-batch=128 --timeout 50\n"
    "      two models; requests that say nothing else are answered within 50 ms or refused\n"
    "  gpuactors-serve --model a=a.safetensors --min-replicas 1 --max-replicas 4 --idle-after 60\n"
    "      as many replicas as the queue demands\n"
    "  gpuactors-serve --models models.json\n"
    "      the models of a file, which may change: {\"models\": {\"a\": {\"file\": \"a.safetensors\", \"gpus\": "
    "0.5}}}\n"
    "  gpuactors up --program $(which gpuactors-serve) &\n"
    "  gpuactors-serve --model a=a.safetensors --broker 127.0.0.1:7711\n"
    "      replicas in worker processes of a cluster\n"
    "  gpuactors-serve --model words=words.txt,actor=acme/words,set=language=en --plugin ./acme.so\n"
    "      replicas of an actor type of yours, which reads the file and the settings\n\n"
    "Ask it, of a model with 2 inputs:\n"
    "  curl -d '{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,2],\"data\":[1,2]}]}' \\\n"
    "       http://127.0.0.1:8000/v2/models/a/infer\n"
    "Replace a file and have it loaded beside the version that serves:\n"
    "  curl -X POST http://127.0.0.1:8000/v2/repository/models/a/load\n\n"
    "SIGINT or SIGTERM ends it when what was accepted is answered; a second one at once.\n"
    "Exit code: 0 after a signal; when it cannot start, 1 if the same start may succeed later, else 2.";

void add_models(CLI::App& parser, Typed& typed) {
  parser
      .add_option("--model", typed.models,
                  "A model: its name, the file of a checkpoint, and keys that go before the options below for this one "
                  "model; may be repeated. With an actor type, the file is whatever the actor reads, or left out")
      ->type_name("NAME[=FILE][,KEY=VALUE...]")
      ->allow_extra_args(false);
  parser
      .add_option("--models", typed.models_file,
                  "Models in JSON, {\"models\": {NAME: {\"file\": FILE, KEY: VALUE...}}}, with the keys of --model and "
                  "\"canary\": read "
                  "again when it changes, for models that come, change and go while the server runs. Implies "
                  "--keep-going")
      ->type_name("FILE");
  for (const auto& key : model_keys())
    parser
        .add_option_function<std::vector<std::string>>(
            fmt::format("--{}", key.name),
            [&typed, name = std::string{key.name}](const std::vector<std::string>& values) {
              for (const auto& value : values)
                typed.keys.emplace_back(name, value);
            },
            std::string{key.help})
        ->expected(1, key.repeats ? CLI::detail::expected_max_vector_size : 1)
        ->allow_extra_args(false)
        ->type_name(std::string{key.value})
        ->group("For all models, and keys of one");
}

void add_fronts(CLI::App& parser, Typed& typed) {
  constexpr auto group = "Where it listens";
  parser.add_option("--http", typed.http, fmt::format("HTTP; {} when neither is named", default_http))
      ->type_name("HOST:PORT")
      ->group(group);
  parser.add_option("--grpc", typed.grpc, fmt::format("gRPC; {} when neither is named", default_grpc))
      ->type_name("HOST:PORT")
      ->group(group);
  parser
      .add_option(
          "--token-file", typed.token_file,
          "Bearer tokens, one a line, that clients have to know; needed beyond loopback, or TLS. Behind \"ask \" "
          "stand those that may not load and unload models")
      ->type_name("FILE")
      ->group(group);
  parser
      .add_option(
          "--request-log", typed.request_log,
          "File that gets a line of JSON for each request: who, what, when, the status, where the time went; - is "
          "standard output. A file that was renamed is made anew. None when left out")
      ->type_name("FILE")
      ->group(group);
  parser.add_option("--tls-cert", typed.tls_cert, "Certificate with its chain, PEM")->type_name("FILE")->group(group);
  parser.add_option("--tls-key", typed.tls_key, "The key that belongs to it, PEM")->type_name("FILE")->group(group);
}

void add_life(CLI::App& parser, Typed& typed) {
  constexpr auto group = "Loading and ending";
  parser
      .add_flag("--keep-going", typed.keep_going,
                "Serve the other models when one cannot be loaded at the start, and try it again, after a second at "
                "first and each minute in the end; the server ends when left out")
      ->group(group);
  parser
      .add_option("--allow-load-paths", typed.load_paths,
                  "Folder whose files clients may load by the parameter \"path\"; none when left out")
      ->type_name("DIR")
      ->group(group);
  parser
      .add_option("--load-wait", typed.load_wait,
                  "Seconds that a model which is loaded waits for its share of a device; 10 when left out")
      ->type_name("S")
      ->check(CLI::Range(0.01, 86'400.0))
      ->group(group);
  parser
      .add_option("--leave-seconds", typed.leave_seconds,
                  "Seconds that the server serves on after SIGTERM, and says that it is not ready: as long as it takes "
                  "others to notice; 0 when left out")
      ->type_name("S")
      ->check(CLI::Range(0.0, 86'400.0))
      ->group(group);
  parser
      .add_option("--drain-seconds", typed.drain_seconds,
                  "Seconds that requests get to end when a version or the server does; 30 when left out")
      ->type_name("S")
      ->check(CLI::Range(0.0, 86'400.0))
      ->group(group);
}

void add_deployment(CLI::App& parser, Typed& typed) {
  constexpr auto group = "Where replicas run";
  parser
      .add_option("--deployment", typed.deployment,
                  "Replicas in a running cluster outlive the server, under this name, and the next server of the name "
                  "takes over those that are as it would start them; they end with the server when left out")
      ->type_name("NAME")
      ->group(group);
  parser
      .add_flag("--end-deployment", typed.end_deployment,
                "Serve nothing: end the replicas of --deployment and say how many there were")
      ->group(group);
}

void add_cluster(CLI::App& parser, Typed& typed) {
  gpuactors::cli::ConnectionTexts texts;
  texts.group = "Where replicas run";
  texts.broker = "Broker of a running cluster, also by GPUACTORS_BROKER; its nodes need this program as --program for "
                 "networks, and for actor types the program or plugin that has them";
  texts.reconnect_grace =
      "How long the models stay when the connection to the broker is lost; they end at once when left out";
  gpuactors::cli::add_embedding(parser, typed.cluster.embed, texts.group);
  parser
      .add_option("--plugin", typed.plugins,
                  "Library with actor types for the embedded cluster; may be repeated. The nodes of a running cluster "
                  "have plugins of their own")
      ->type_name("LIB")
      ->allow_extra_args(false)
      ->group(texts.group);
  gpuactors::cli::add_connection(parser, typed.cluster.connect, texts);
}

Result<std::vector<ModelConfig>> read_models(const Typed& typed, ModelConfig& defaults) {
  for (const auto& [name, value] : typed.keys)
    if (auto set = set_key(defaults, name, value); !set)
      return gpuactors::fail(Errc::invalid_argument, "--" + set.error().message());
  std::vector<ModelConfig> models;
  for (const auto& text : typed.models) {
    GPUACTORS_LET(model, parse_model(text, defaults));
    models.push_back(std::move(model));
  }
  return models;
}

Result<void> read_models_file(const Typed& typed, ServeOptions& options) {
  if (typed.models_file.empty())
    return {};
  ModelsFile file{typed.models_file, options.table.defaults, {}};
  for (const auto& model : options.models)
    file.taken.insert(model.name);
  // Before it is read: what changes meanwhile is read again.
  options.models_file_stamps = Renewal::stamps_of({file.path});
  GPUACTORS_LET(models, file.read());
  options.models_of_file = std::move(models);
  options.models_file = std::move(file);
  return {};
}

Result<std::optional<gpuactors::Endpoint>> read_endpoint(const char* option, const std::string& text) {
  if (text.empty())
    return std::optional<gpuactors::Endpoint>{};
  auto endpoint = gpuactors::parse_endpoint(text);
  if (!endpoint)
    return gpuactors::fail(Errc::invalid_argument, fmt::format("{}: {}", option, endpoint.error().message()));
  return std::optional{*endpoint};
}

Result<FrontOptions> read_fronts(const Typed& typed) {
  const auto neither = typed.http.empty() && typed.grpc.empty();
  FrontOptions fronts;
  GPUACTORS_LET(http, read_endpoint("--http", neither ? default_http : typed.http));
  GPUACTORS_LET(grpc, read_endpoint("--grpc", neither ? default_grpc : typed.grpc));
  fronts.http = http;
  fronts.grpc = grpc;
  fronts.token_file = typed.token_file;
  fronts.request_log = typed.request_log;
  if (typed.tls_cert.empty() != typed.tls_key.empty())
    return gpuactors::fail(Errc::invalid_argument, "--tls-cert and --tls-key belong together: one of them is missing");
  if (!typed.tls_cert.empty())
    fronts.tls = TlsFiles{typed.tls_cert, typed.tls_key};
  return fronts;
}

} // namespace

Result<std::optional<ServeOptions>> parse_options(int argc, const char* const* argv) {
  Typed typed;
  CLI::App parser{
      "Serves networks, and actors of your own, over HTTP and gRPC by the Open Inference Protocol v2, from shares "
      "of GPUs:\nbatches that no request is late by, replicas that come, go and are replaced, new versions without a "
      "gap.",
      "gpuactors-serve"};
  parser.set_version_flag("--version", "gpuactors-serve " GPUACTORS_VERSION);
  parser.footer(examples);
  add_models(parser, typed);
  add_fronts(parser, typed);
  add_life(parser, typed);
  add_cluster(parser, typed);
  add_deployment(parser, typed);
  try {
    parser.parse(argc, argv);
  } catch (const CLI::Success& wish) { // --help, --version
    parser.exit(wish, std::cout, std::cerr);
    return std::optional<ServeOptions>{};
  } catch (const CLI::ParseError& error) {
    return gpuactors::fail(Errc::invalid_argument, gpuactors::cli::explain(parser, error));
  }
  if (typed.models.empty() && typed.models_file.empty() && !typed.end_deployment)
    return gpuactors::fail(Errc::invalid_argument, "there is nothing to serve: name a model, such as --model "
                                                   "digits=checkpoint.safetensors; see gpuactors-serve --help");
  ServeOptions options;
  GPUACTORS_LET(models, read_models(typed, options.table.defaults));
  GPUACTORS_LET(fronts, read_fronts(typed));
  options.models = std::move(models);
  GPUACTORS_TRY(read_models_file(typed, options));
  options.fronts = std::move(fronts);
  GPUACTORS_TRY(typed.cluster.check());
  if (!typed.plugins.empty() && typed.cluster.connects())
    return gpuactors::fail(Errc::invalid_argument, "--plugin is for an embedded cluster: the nodes of the one at "
                                                       + typed.cluster.connect.broker
                                                       + " need it as their own --plugin");
  if (!typed.deployment.empty()) {
    if (auto fits = check_deployment(typed.deployment); !fits)
      return gpuactors::fail(Errc::invalid_argument, "--deployment: " + fits.error().message());
    if (!typed.cluster.connects())
      return gpuactors::fail(Errc::invalid_argument, "--deployment is for a running cluster: name its broker by "
                                                     "--broker, since an embedded one ends with the server");
  } else if (typed.end_deployment) {
    return gpuactors::fail(Errc::invalid_argument, "--end-deployment needs the name: --deployment NAME");
  }
  options.table.deployment = typed.deployment;
  options.ends_deployment = typed.end_deployment;
  options.plugins = std::move(typed.plugins);
  options.cluster = std::move(typed.cluster);
  // A file that is edited while the server runs must not be what keeps it from starting again.
  options.keeps_going = typed.keep_going || options.models_file.has_value();
  options.table.load_paths = typed.load_paths;
  options.table.drain = gpuactors::from_seconds(typed.drain_seconds);
  options.leave = gpuactors::from_seconds(typed.leave_seconds);
  options.table.load_wait = gpuactors::from_seconds(typed.load_wait);
  if (std::error_code ignored; !typed.load_paths.empty() && !std::filesystem::is_directory(typed.load_paths, ignored))
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("--allow-load-paths: there is no folder {}", typed.load_paths));
  return std::optional{std::move(options)};
}

} // namespace serve
