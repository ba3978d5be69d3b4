// Which variables a request may set for its process.
#include <gpuactors/agent/core/environment.hpp>
#include <gpuactors/base/limits.hpp>

#include <support/catch.hpp>

using namespace gpuactors;
using Catch::Matchers::Contains;

namespace {

/// Why a request may not set it; empty: it may.
std::string why_not(const std::string& name, const std::string& value = "1") {
  const auto checked = check_environment(std::map<std::string, std::string>{{name, value}});
  CHECK((checked || checked.error().code() == Errc::invalid_argument));
  return checked ? "" : checked.error().message();
}

} // namespace

TEST_CASE("a request sets what its type reads, and what tunes libraries") {
  for (const auto* name : {"COLOUR",
                           "http_timeout",
                           "HOMER",
                           "PATHS",
                           "PROXY",
                           "OMP_NUM_THREADS",
                           "NCCL_DEBUG",
                           "NCCL_SOCKET_IFNAME",
                           "NCCL_P2P_DIRECT_DISABLE",
                           "NCCL_CUMEM_HOST_ENABLE",
                           "CUDA_LAUNCH_BLOCKING",
                           "CUDA_DEVICE_MAX_CONNECTIONS",
                           "CUBLAS_WORKSPACE_CONFIG",
                           "CUDNN_LOGLEVEL_DBG",
                           "TORCH_NCCL_BLOCKING_WAIT",
                           "UCX_TLS",
                           "FI_PROVIDER",
                           "MKL_NUM_THREADS",
                           "OMP_PROC_BIND",
                           "TENSOR_FILE",
                           "DATA_PATH",
                           "DATA_DIR"}) {
    INFO(name);
    CHECK(why_not(name).empty());
  }
}

TEST_CASE("what makes a process load, write or send what its type does not is refused by name") {
  for (const auto* name : {"GPUACTORS_ISOLATED",
                           "LD_PRELOAD",
                           "CUDA_MPS_PIPE_DIRECTORY",
                           "CUDA_VISIBLE_DEVICES",
                           "NEURON_RT_VISIBLE_CORES",
                           "OTEL_EXPORTER_OTLP_ENDPOINT",
                           "OTEL_EXPORTER_OTLP_HEADERS",
                           "http_proxy",
                           "HTTPS_PROXY",
                           "no_proxy",
                           "GRPC_PROXY",
                           "HOME",
                           "PATH",
                           "TMPDIR",
                           "XDG_STATE_HOME",
                           "SSL_CERT_FILE",
                           "SSLKEYLOGFILE",
                           "OPENSSL_CONF",
                           "GCONV_PATH",
                           "LOCPATH",
                           "GLIBC_TUNABLES",
                           "MALLOC_CHECK_",
                           "PYTHONPATH",
                           "PYTHONSTARTUP",
                           "BASH_ENV",
                           "ENV",
                           "IFS",
                           "NCCL_DEBUG_FILE",
                           "NCCL_CONF_FILE",
                           "NCCL_NET_PLUGIN",
                           "NCCL_TUNER_PLUGIN",
                           "NCCL_PROFILER_PLUGIN",
                           "NCCL_TOPO_DUMP_FILE",
                           "NCCL_GRAPH_DUMP_FILE",
                           "CUBLAS_LOGDEST_DBG",
                           "CUBLASLT_LOG_FILE",
                           "CUDNN_LOGDEST_DBG",
                           "CUDA_COREDUMP_FILE",
                           "CUDA_ENABLE_COREDUMP_ON_EXCEPTION",
                           "CUDA_LOG_FILE",
                           "CUDA_CACHE_PATH",
                           "CUDA_INJECTION64_PATH",
                           "NVTX_INJECTION64_PATH",
                           "UCX_MODULE_DIR",
                           "UCX_STATS_DEST",
                           "IBV_DRIVERS",
                           "RDMAV_DRIVERS",
                           "FI_PROVIDER_PATH",
                           "OMP_TOOL_LIBRARIES",
                           "OMP_TOOL_VERBOSE_INIT",
                           "HWLOC_PLUGINS_PATH",
                           "MKL_VERBOSE_OUTPUT_FILE",
                           "NVSHMEM_BOOTSTRAP_PLUGIN",
                           "TORCHINDUCTOR_CACHE_DIR",
                           "PYTORCH_KERNEL_CACHE_PATH"}) {
    INFO(name);
    CHECK_THAT(why_not(name), Contains(std::string{name} + " is set by the node, or by whoever starts it"));
  }
}

TEST_CASE("malformed variables are refused, and too many bytes of them") {
  for (const auto* name : {"", "1ST", "A=B", "A B", "\xc3\xbc"})
    CHECK_THAT(why_not(name), Contains("is no name of a variable"));
  CHECK_THAT(why_not("A", {"a\0b", 3}), Contains("the value of A has a zero byte"));
  CHECK(why_not("A", std::string(limits::environment_bytes - 1, 'x')).empty());
  CHECK_THAT(why_not("A", std::string(limits::environment_bytes, 'x')), Contains("at most 65536"));
}
