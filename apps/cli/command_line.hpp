// Command lines that a program writes for people to paste into a shell.
#pragma once

#include <gpuactors/cluster/options.hpp>

#include <string>
#include <string_view>

namespace gpuactors::cli {

/// Returns a word that a POSIX shell reads as `word`: as it is where nothing in it means anything to a shell, else in
/// single quotes. Pure.
[[nodiscard]] std::string shell_quoted(std::string_view word);

/// Returns the options by which a command in any folder reaches the same cluster in the same way: "--broker
/// 10.0.0.1:7711 --certs /etc/gpuactors", or with --insecure, and the times that the cluster was started with, where
/// they are not the usual ones. A relative folder is one of this process's folder. Empty for an embedded cluster.
[[nodiscard]] std::string connection_arguments(const ConnectOptions& options);

} // namespace gpuactors::cli
