#include "cluster_options.hpp"

#include <gpuactors/base/units.hpp>

#include <fmt/format.h>

#include <vector>

namespace gpuactors::cli {

CLI::Option* add_seconds(CLI::App& parser, const std::string& name, Duration& duration, const std::string& text) {
  const auto store = [&duration, name](const std::string& given) {
    const auto seconds = parse_double(given);
    if (!seconds || !(*seconds >= 0))
      throw CLI::ValidationError{fmt::format("{} is \"{}\": seconds are expected, such as 0.5", name, given),
                                 CLI::ExitCodes::ValidationError};
    duration = from_seconds(*seconds);
  };
  return parser.add_option_function<std::string>(name, store, text)->type_name("SECONDS");
}

void add_connection(CLI::App& parser, ConnectOptions& options, const ConnectionTexts& texts) {
  parser.add_option("--broker", options.broker, texts.broker)->type_name("HOST:PORT,...")->group(texts.group);
  parser
      .add_option("--certs", options.certificates,
                  "Folder with this machine's certificates. Default: GPUACTORS_CERTS, else the user's own")
      ->type_name("DIR")
      ->group(texts.group);
  parser
      .add_flag("--insecure", options.insecure,
                "Connect in plaintext, to a cluster that was started so; no certificates are needed then")
      ->group(texts.group);
  add_seconds(parser, "--heartbeat", options.heartbeat,
              "How often it shows that it is alive, as the cluster was started with. Default: 1")
      ->group(texts.group);
  add_seconds(parser, "--link-timeout", options.link_timeout,
              "How long the cluster may be silent before it counts as dead. Default: 5")
      ->group(texts.group);
  add_seconds(parser, "--reconnect-grace", options.reconnect_grace, texts.reconnect_grace)->group(texts.group);
}

void add_embedding(CLI::App& parser, EmbedOptions& options, const std::string& group) {
  const auto store = [&options](const std::vector<std::string>& specs) {
    options.devices.clear();
    for (const auto& spec : specs) {
      if (spec.find_first_not_of(" \t\n") == std::string::npos)
        throw CLI::ValidationError{"--devices is empty: cuda, cuda*4 or host:4x1GiB is expected, for example",
                                   CLI::ExitCodes::ValidationError};
      options.devices += (options.devices.empty() ? "" : " ") + spec;
    }
  };
  parser
      .add_option_function<std::vector<std::string>>(
          "--devices", store,
          "Devices of the embedded cluster: cuda, cuda:GPU-uuid,..., cuda*N or host:COUNT[xMEMORY][@TYPE], such as "
          "host:4x1GiB@V100; may be repeated. Left out: CUDA if there is any, else host:1")
      ->type_name("SPEC")
      ->allow_extra_args(false)
      ->group(group);
}

} // namespace gpuactors::cli
