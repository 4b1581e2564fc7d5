# What `make install` and the wheel contain: the engine, its drop-in names, and busbw's own libraries.

if(SKBUILD)
  # Beside `busbw`, in the environment's bin/ and lib/: the engine looks for the libraries in ../lib.
  set(busbw_bin ${SKBUILD_SCRIPTS_DIR})
  set(busbw_lib ${SKBUILD_DATA_DIR}/lib)
else()
  set(busbw_bin bin)
  set(busbw_lib lib)
endif()

install(TARGETS busbw-engine RUNTIME DESTINATION ${busbw_bin})
foreach(library busbw_cpu busbw_gpu busbw_recorder busbw_tuner busbw_with)
  if(TARGET ${library})
    install(TARGETS ${library} LIBRARY DESTINATION ${busbw_lib})
  endif()
endforeach()

# What `busbw with` has the loader take for NCCL; a plain file, as a wheel holds no links.
if(TARGET busbw_with_shim)
  install(PROGRAMS $<TARGET_FILE:busbw_with_shim> DESTINATION ${busbw_lib}/busbw_with RENAME libnccl.so.2)
endif()

foreach(collective ${BUSBW_COLLECTIVES})
  if(SKBUILD)
    # A wheel holds no links, and eleven copies of the engine would be ten too many.
    install(PROGRAMS ${CMAKE_CURRENT_LIST_DIR}/drop_in.sh DESTINATION ${busbw_bin} RENAME ${collective}_perf)
  else()
    install(CODE "
      set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${busbw_bin}\")
      file(CREATE_LINK busbw-engine \"\${folder}/${collective}_perf\" SYMBOLIC)")
  endif()
endforeach()
