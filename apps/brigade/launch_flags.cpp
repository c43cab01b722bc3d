#include "apps/brigade/launch_flags.h"

#include "apps/brigade/flag_group.h"

namespace brigade::command {
namespace {

constexpr const char* kLaunchExamples = R"(Examples:
  brigade launch --nproc 2 -- brigade train --strategy multi_worker_mirrored --model-dir /tmp/run
      one model, trained by two processes of this machine
  brigade launch -n 4 --max-restarts 3 -- ./my_program --flag
      any program; after a failure all are restarted, up to three times
  brigade launch --nproc 2 --output-dir /tmp/logs --show-ranks 0 -- python3 train.py
      every process's output in files, that of rank 0 also shown
  brigade launch --nproc 4 --elastic 2:4 --status-port 9400 -- ./my_program
      continues with fewer when one is killed; Prometheus can read http://127.0.0.1:9400/metrics
  brigade launch --independent --per-rank rates.txt -- brigade train --model-dir /tmp/sweep/{rank}
      independent models: each line of rates.txt, such as "--learning-rate 0.1", has the
      additional arguments of one of them
  brigade launch --ps 2 --workers 4 --evaluator -- brigade train --strategy parameter_server --model-dir /tmp/run
      parameter servers, workers and an evaluator, each with its TF_CONFIG; each is restarted alone
  brigade launch --ps 1 --ps-replicas 2 --workers 4 -- brigade train --strategy parameter_server --model-dir /tmp/run
      the server has a replica with the same variables, which serves when the server is lost
  brigade launch --nnodes 2 --node-rank 0 --rendezvous a:29400 --key-file cluster.key --nproc 4 -- ./my_program
      on host a, and the same with --node-rank 1 on host b: one job of eight processes
  brigade launch --nnodes 2 --node-rank 0 --rendezvous a:29400 --key-file cluster.key --ps 2 --workers 4 -- brigade train --strategy parameter_server --model-dir /shared/run
      on host a, and the same with --node-rank 1 on host b: a server and two workers on each
  (umask 077; brigade launch --new-key > cluster.key)
      the key that the members of a cluster on several machines share

Each process finds RANK, WORLD_SIZE, LOCAL_RANK and the rendezvous address in its environment, or with --ps its
TF_CONFIG. In the program's arguments, {rank} and {world_size} are replaced by the numbers. The exit code is 0 if
all succeeded, else that of the process that failed first (128 plus the number if a signal killed it). SIGINT and
SIGTERM are sent to all processes (130, 75); a second one kills them.)";

}  // namespace

void LaunchFlags::add_to(CLI::App& app) {
  FlagGroup flags(app);
  flags.add("-n,--nproc,--nproc-per-node,--nproc_per_node", processes,
            "Processes on this machine (default: 1, or the lines of --per-rank)");
  flags.add("--per-rank", per_rank, "A file with a line of additional arguments for each process");
  flags.add_switch(
      "--independent", independent,
      "The processes do not train together: each runs alone, and a failure of one does "
      "not stop the others");
  flags.add("--max-restarts", job.max_restarts, "Restart after a failure, at most so many times");
  flags.add("--elastic", elastic,
            "MIN:MAX: continue without a lost process while MIN are left; SIGUSR1 to the "
            "launcher adds one, up to MAX");
  flags.add("--grace", grace_seconds, "Seconds between SIGTERM and SIGKILL");
  flags.add("--peer-timeout", peer_timeout_seconds,
            "Seconds without a heartbeat after which a process is lost");
  flags.add("--bind", binding, "Cores: divide them among the processes, or none");
  flags.add("--gpus", gpus,
            "GPUs (all, or those of CUDA_VISIBLE_DEVICES): divide them among the processes, "
            "or none: each sees all");
  flags.add("--gpu-memory-fraction", job.gpu_memory_fraction,
            "Fraction of each GPU's memory that a process made with Brigade may use: above 0, "
            "up to 1");
  flags.add("--status-port", job.status_port,
            "Serve /healthz and /metrics (Prometheus) on 127.0.0.1; 0 takes a free port");
  flags.add("--prefix", prefix, "Before each line of output: rank, or none");
  flags.add("--show-ranks", job.output.ranks, "Show the output of these ranks only (0,2)")
      ->delimiter(',');
  flags.add("--output-dir", output_dir, "Also write each rank's output to files here");
  flags.add("--key-file", key_file,
            "The cluster's key (default: BRIGADE_CLUSTER_KEY or BRIGADE_CLUSTER_KEY_FILE; without "
            "them, on one host, one is made for the job)");
  flags.add_switch("--new-key", new_key, "Write a new cluster key to standard output and exit");
  FlagGroup servers_group(app, "Parameter servers (each task is restarted alone, on its host)");
  servers_group.add("--ps", servers, "Parameter servers, on all hosts together");
  servers_group.add("--ps-replicas", server_replicas,
                    "Processes of each parameter server: with 2, a replica, on the next host "
                    "where there are several, has every update before it is acknowledged, and "
                    "serves when the server is lost (default 1)");
  servers_group.add(
      "--workers", workers,
      "Workers, on all hosts together; without --chief the first is the chief (default 1)");
  servers_group.add_switch("--evaluator", evaluator, "Also start an evaluator");
  servers_group.add_switch("--chief", chief,
                           "Also start a chief, which then is none of the workers: one that "
                           "coordinates them, or trains");
  servers_group.add("--ps-folder", server_folder,
                    "Where servers keep their variables while the job runs (default: a temporary "
                    "folder)");
  FlagGroup several(app, "Several hosts (the same command on each, with its own number)");
  several.add("--nnodes", job.hosts.count, "Hosts");
  several.add("--node-rank,--node_rank", host, "Which host this is: 0, 1, ...");
  several.add("--rendezvous,--rdzv-endpoint,--rdzv_endpoint", job.hosts.rendezvous,
              "HOST:PORT where the launcher of host 0 listens for the others");
  several.add("--start-timeout", start_timeout_seconds,
              "Seconds until all launchers must have joined");
  flags.add_switch("--json", json, "Write one JSON object about the job, after its output");
  app.footer(kLaunchExamples);
}

}  // namespace brigade::command
