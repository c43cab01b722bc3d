# What ctest must know to keep two cores busy, and not more than busy. `./dev` lets tests take six slots together. A test takes two
# of them, so that three run at once: they compute for little more than half of their time. Those that mostly wait (for time-outs,
# restarts, other processes) take one; those that need the cores for themselves, or disturb others, take four.
set(BRIGADE_WAITING_TESTS
  cluster_launched cluster_loss cluster_slow_worker launch_hosts launch_members launch_stalled ps ps_coordinated_launch ps_losses
  ps_metrics ps_replicas rpc rpc_faults train)
set(BRIGADE_GREEDY_TESTS
  cli_interrupt   # measures how soon a process ends
  rpc_strangers)  # storms of connections

# Seconds of the longer tests (two busy cores, g++ 12; with the optional programs of docs/dependencies.md; slurm's is an estimate). ctest starts the longest
# first, so that none is left alone at the end; without this it would know them only after a first run.
set(BRIGADE_TEST_SECONDS
  slurm 120 distribute 120 original_models 115 contract 104 ps 103 cluster_faults 98 ps_losses 96 parity 92
  install 70 ps_replicas 66 rpc_strangers 59 cluster_strangers 58 cluster_preemption 56
  cluster_parameter_server_example 55 mpi_ranks 47 ps_launched 45 cluster_coordinator_example 40
  cluster_logical_replicas 40 cluster_pipeline_workers 40 mpi_train 38 cluster_example_programs 38 cluster_soak 37
  cli_hostile_files 35 cli_interrupt 35 train 35 ps_coordinated_fit 33 ps_continuations 32 ps_coordinated_launch 32
  cli_model_directory 30 cli_resume 30 cli_pipeline 30 cluster_loss 30 process_random_kills 28 rpc 28
  cluster_launched 28 cli_bad_input 25 cli_extract 25 cli_image_training 25 cluster_wire_bytes 25 ps_modes 25
  ps_strangers 24 example_in_graph_replication 24 ps_soak_sync 23 launch_members 23 models 22 launch_hosts 21
  cli_weights 20 cluster_resume 20 cli_sweep 20 cluster_slow_worker 20 ps_metrics 18 cli_commands 15
  cluster_layouts 15 cli_watching 15 cluster_options 12 cli_towers 12 cli_step_breakdown 10 cli_report 10 cli_top 10
  cli_completion 10)

# brigade_schedule_test(<name>)
function(brigade_schedule_test name)
  set(slots 2)
  if(name IN_LIST BRIGADE_WAITING_TESTS)
    set(slots 1)
  elseif(name IN_LIST BRIGADE_GREEDY_TESTS)
    set(slots 4)
  endif()
  set_tests_properties(${name} PROPERTIES PROCESSORS ${slots})
  list(FIND BRIGADE_TEST_SECONDS ${name} at)
  if(at GREATER_EQUAL 0)
    math(EXPR at "${at} + 1")
    list(GET BRIGADE_TEST_SECONDS ${at} seconds)
    set_tests_properties(${name} PROPERTIES COST ${seconds})
  endif()
endfunction()
