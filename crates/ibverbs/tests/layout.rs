//! The structures of this crate lie as those of the system's header, field by field.
//!
//! The header may be older than ours: then its structure is the beginning of ours.

#[path = "support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};

use abi::*;
use support::{ProgramDir, must_succeed};

/// A C expression, and this crate's value of it.
type Facts = Vec<(String, usize)>;

/// The size and the fields of structures that have the same names on both sides.
macro_rules! same_names {
    ($($kind:ident $name:ident { $($field:ident),+ $(,)? }),+ $(,)?) => {{
        let mut facts = Facts::new();
        $(
            let c = format!("{} {}", stringify!($kind), stringify!($name));
            facts.push((format!("sizeof({c})"), size_of::<$name>()));
            $(
                let field = stringify!($field).trim_start_matches("r#");
                facts.push((format!("offsetof({c}, {field})"), offset_of!($name, $field)));
            )+
        )+
        facts
    }};
}

/// Structures that grew after the oldest header that this test may meet.
const GREW: [&str; 2] = ["sizeof(struct ibv_port_attr)", "sizeof(struct ibv_qp_ex)"];

#[test]
fn structures_lie_as_in_the_header() {
    let mut facts = plain();
    facts.extend(nested());
    facts.extend(contexts());
    let in_c = ask_c(&facts);
    for (expression, ours) in facts {
        let theirs = in_c[&expression];
        if GREW.contains(&expression.as_str()) {
            assert!(theirs <= ours, "{expression}: {theirs} in C, {ours} here");
        } else {
            assert_eq!(theirs, ours, "{expression} in C and here");
        }
    }
}

/// Compiles and runs a program that prints all of them.
fn ask_c(facts: &Facts) -> BTreeMap<String, usize> {
    let place = ProgramDir::new("layout");
    let mut text = String::from(
        "#include <infiniband/sa.h>\n#include <infiniband/verbs.h>\n#include <rdma/ib_user_sa.h>\n\
         #include <rdma/ib_user_verbs.h>\n#include <rdma/rdma_cma.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{\n",
    );
    for (expression, _) in facts {
        text += &format!("\tprintf(\"%zu {expression}\\n\", {expression});\n");
    }
    let source = place.path().join("layout.c");
    std::fs::write(&source, text + "}\n").expect("our own directory");
    let program = place.path().join("layout");
    must_succeed(std::process::Command::new("cc").args(["-Wall", "-Werror", "-o"]).args([&program, &source]));
    let said = must_succeed(&mut std::process::Command::new(&program));
    let lines = said.lines().map(|line| line.split_once(' ').expect("a number and an expression"));
    lines.map(|(number, expression)| (expression.to_owned(), number.parse().expect("a number"))).collect()
}

/// The table around a context grows at its beginning: its fields are compared by their distances from the end.
#[rustfmt::skip]
fn contexts() -> Facts {
    let mut facts = Facts::new();
    macro_rules! from_the_end {
        ($($field:ident),+ $(,)?) => {
            $(
                let field = stringify!($field).trim_start_matches("r#");
                let expression = format!("(sizeof(struct verbs_context) - offsetof(struct verbs_context, {field}))");
                facts.push((expression, size_of::<verbs_context>() - offset_of!(verbs_context, $field)));
            )+
        };
    }
    from_the_end! {
        query_port, advise_mr, alloc_null_mr, read_counters, attach_counters_point_flow, create_counters,
        destroy_counters, reg_dm_mr, alloc_dm, free_dm, modify_flow_action_esp, destroy_flow_action,
        create_flow_action_esp, modify_qp_rate_limit, alloc_parent_domain, dealloc_td, alloc_td, modify_cq,
        post_srq_ops, destroy_rwq_ind_table, create_rwq_ind_table, destroy_wq, modify_wq, create_wq,
        query_rt_values, create_cq_ex, r#priv, query_device_ex, ibv_destroy_flow, ibv_create_flow, open_qp,
        create_qp_ex, get_srq_num, create_srq_ex, open_xrcd, close_xrcd, sz, context
    }
    facts
}

/// Fields that are in unions or structures without a name in C.
fn nested() -> Facts {
    let wr = offset_of!(ibv_send_wr, wr);
    let extra = offset_of!(ibv_send_wr, extra);
    let caps = offset_of!(ibv_odp_caps, rc_odp_caps);
    let send = |field: &str, offset| (format!("offsetof(struct ibv_send_wr, {field})"), offset);
    let mut facts = vec![
        send("invalidate_rkey", offset_of!(ibv_send_wr, imm_data)),
        send("wr.rdma.remote_addr", wr + offset_of!(ibv_send_wr_rdma, remote_addr)),
        send("wr.rdma.rkey", wr + offset_of!(ibv_send_wr_rdma, rkey)),
        send("wr.atomic.remote_addr", wr + offset_of!(ibv_send_wr_atomic, remote_addr)),
        send("wr.atomic.compare_add", wr + offset_of!(ibv_send_wr_atomic, compare_add)),
        send("wr.atomic.swap", wr + offset_of!(ibv_send_wr_atomic, swap)),
        send("wr.atomic.rkey", wr + offset_of!(ibv_send_wr_atomic, rkey)),
        send("wr.ud.ah", wr + offset_of!(ibv_send_wr_ud, ah)),
        send("wr.ud.remote_qpn", wr + offset_of!(ibv_send_wr_ud, remote_qpn)),
        send("wr.ud.remote_qkey", wr + offset_of!(ibv_send_wr_ud, remote_qkey)),
        send("qp_type.xrc.remote_srqn", offset_of!(ibv_send_wr, remote_srqn)),
        send("bind_mw.mw", extra + offset_of!(ibv_send_wr_bind_mw, mw)),
        send("bind_mw.rkey", extra + offset_of!(ibv_send_wr_bind_mw, rkey)),
        send("bind_mw.bind_info", extra + offset_of!(ibv_send_wr_bind_mw, bind_info)),
        send("tso.hdr", extra + offset_of!(ibv_send_wr_tso, hdr)),
        send("tso.hdr_sz", extra + offset_of!(ibv_send_wr_tso, hdr_sz)),
        send("tso.mss", extra + offset_of!(ibv_send_wr_tso, mss)),
    ];
    facts.extend([
        ("offsetof(struct ibv_wc, invalidated_rkey)".into(), offset_of!(ibv_wc, imm_data)),
        ("offsetof(union ibv_gid, global.interface_id)".into(), offset_of!(ibv_gid_global, interface_id)),
        ("offsetof(struct ibv_odp_caps, per_transport_caps.rc_odp_caps)".into(), caps),
        ("offsetof(struct ibv_odp_caps, per_transport_caps.ud_odp_caps)".into(), offset_of!(ibv_odp_caps, ud_odp_caps)),
        ("offsetof(struct ibv_async_event, element.port_num)".into(), offset_of!(ibv_async_event, element)),
    ]);
    facts
}

#[rustfmt::skip]
fn plain() -> Facts {
    same_names! {
        struct _ibv_device_ops { _dummy1, _dummy2 },
        struct ib_user_path_rec {
            dgid, sgid, dlid, slid, raw_traffic, flow_label, reversible, mtu, pkey, hop_limit, traffic_class,
            numb_path, sl, mtu_selector, rate_selector, rate, packet_life_time_selector, packet_life_time,
            preference
        },
        struct ib_uverbs_ah_attr { grh, dlid, sl, src_path_bits, static_rate, is_global, port_num, reserved },
        struct ib_uverbs_global_route { dgid, flow_label, sgid_index, hop_limit, traffic_class, reserved },
        struct ib_uverbs_qp_attr {
            qp_attr_mask, qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num,
            qp_access_flags, ah_attr, alt_ah_attr, max_send_wr, max_recv_wr, max_send_sge, max_recv_sge,
            max_inline_data, pkey_index, alt_pkey_index, en_sqd_async_notify, sq_draining, max_rd_atomic,
            max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout,
            reserved
        },
        struct ibv_ah { context, pd, handle },
        struct ibv_ah_attr { grh, dlid, sl, src_path_bits, static_rate, is_global, port_num },
        struct ibv_alloc_dm_attr { length, log_align_req, comp_mask },
        struct ibv_async_event { element, event_type },
        struct ibv_comp_channel { context, fd, refcnt },
        struct ibv_context { device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat },
        struct ibv_context_ops {
            _compat_query_device, _compat_query_port, alloc_mw, bind_mw, dealloc_mw, _compat_create_cq, poll_cq,
            req_notify_cq, post_srq_recv, post_send, post_recv
        },
        struct ibv_cq {
            context, channel, cq_context, handle, cqe, mutex, cond, comp_events_completed, async_events_completed
        },
        struct ibv_cq_ex {
            comp_mask, status, wr_id, start_poll, next_poll, end_poll, read_opcode, read_vendor_err,
            read_byte_len, read_imm_data, read_qp_num, read_src_qp, read_wc_flags, read_slid, read_sl,
            read_dlid_path_bits, read_completion_ts, read_cvlan, read_flow_tag, read_tm_info,
            read_completion_wallclock_ns
        },
        struct ibv_cq_init_attr_ex { cqe, cq_context, channel, comp_vector, wc_flags, comp_mask, flags, parent_domain },
        struct ibv_cq_moderation_caps { max_cq_count, max_cq_period },
        struct ibv_data_buf { addr, length },
        struct ibv_device { _ops, node_type, transport_type, name, dev_name, dev_path, ibdev_path },
        struct ibv_device_attr {
            fw_ver, node_guid, sys_image_guid, max_mr_size, page_size_cap, vendor_id, vendor_part_id, hw_ver,
            max_qp, max_qp_wr, device_cap_flags, max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd,
            max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom, max_qp_init_rd_atom, max_ee_init_rd_atom, atomic_cap,
            max_ee, max_rdd, max_mw, max_raw_ipv6_qp, max_raw_ethy_qp, max_mcast_grp, max_mcast_qp_attach,
            max_total_mcast_qp_attach, max_ah, max_fmr, max_map_per_fmr, max_srq, max_srq_wr, max_srq_sge,
            max_pkeys, local_ca_ack_delay, phys_port_cnt
        },
        struct ibv_device_attr_ex {
            orig_attr, comp_mask, odp_caps, completion_timestamp_mask, hca_core_clock, device_cap_flags_ex,
            tso_caps, rss_caps, max_wq_type_rq, packet_pacing_caps, raw_packet_caps, tm_caps, cq_mod_caps,
            max_dm_size, pci_atomic_caps, xrc_odp_caps, phys_port_cnt_ex
        },
        struct ibv_dm { context, memcpy_to_dm, memcpy_from_dm, comp_mask, handle },
        struct ibv_ece { vendor_id, options, comp_mask },
        union ibv_gid { raw, global },
        struct ibv_gid_entry { gid, gid_index, port_num, gid_type, ndev_ifindex },
        struct ibv_global_route { dgid, flow_label, sgid_index, hop_limit, traffic_class },
        struct ibv_grh { version_tclass_flow, paylen, next_hdr, hop_limit, sgid, dgid },
        struct ibv_moderate_cq { cq_count, cq_period },
        struct ibv_modify_cq_attr { attr_mask, moderate },
        struct ibv_mr { context, pd, addr, length, handle, lkey, rkey },
        struct ibv_mw { context, pd, rkey, handle, r#type },
        struct ibv_mw_bind { wr_id, send_flags, bind_info },
        struct ibv_mw_bind_info { mr, addr, length, mw_access_flags },
        struct ibv_odp_caps { general_caps },
        struct ibv_packet_pacing_caps { qp_rate_limit_min, qp_rate_limit_max, supported_qpts },
        struct ibv_parent_domain_init_attr { pd, td, comp_mask, alloc, free, pd_context },
        struct ibv_path_data { flags, path },
        struct ibv_path_record {
            service_id, dgid, sgid, dlid, slid, flowlabel_hoplimit, tclass, reversible_numpath, pkey, qosclass_sl,
            mtu, rate, packetlifetime, preference
        },
        struct ibv_pci_atomic_caps { fetch_add, swap, compare_swap },
        struct ibv_pd { context, handle },
        struct ibv_poll_cq_attr { comp_mask },
        struct ibv_port_attr {
            state, max_mtu, active_mtu, gid_tbl_len, port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr,
            pkey_tbl_len, lid, sm_lid, lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width,
            active_speed, phys_state, link_layer, flags, port_cap_flags2
        },
        struct ibv_qp {
            context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type, mutex, cond,
            events_completed
        },
        struct ibv_qp_attr {
            qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags,
            cap, ah_attr, alt_ah_attr, pkey_index, alt_pkey_index, en_sqd_async_notify, sq_draining,
            max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry,
            alt_port_num, alt_timeout, rate_limit
        },
        struct ibv_qp_cap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data },
        struct ibv_qp_ex {
            qp_base, comp_mask, wr_id, wr_flags, wr_atomic_cmp_swp, wr_atomic_fetch_add, wr_bind_mw, wr_local_inv,
            wr_rdma_read, wr_rdma_write, wr_rdma_write_imm, wr_send, wr_send_imm, wr_send_inv, wr_send_tso,
            wr_set_ud_addr, wr_set_xrc_srqn, wr_set_inline_data, wr_set_inline_data_list, wr_set_sge,
            wr_set_sge_list, wr_start, wr_complete, wr_abort, wr_atomic_write
        },
        struct ibv_qp_init_attr { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all },
        struct ibv_qp_init_attr_ex {
            qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all, comp_mask, pd, xrcd, create_flags,
            max_tso_header, rwq_ind_tbl, rx_hash_conf, source_qpn, send_ops_flags
        },
        struct ibv_qp_open_attr { comp_mask, qp_num, xrcd, qp_context, qp_type },
        struct ibv_qp_rate_limit_attr { rate_limit, max_burst_sz, typical_pkt_sz, comp_mask },
        struct ibv_query_device_ex_input { comp_mask },
        struct ibv_recv_wr { wr_id, next, sg_list, num_sge },
        struct ibv_rss_caps {
            supported_qpts, max_rwq_indirection_tables, max_rwq_indirection_table_size, rx_hash_fields_mask,
            rx_hash_function
        },
        struct ibv_rx_hash_conf { rx_hash_function, rx_hash_key_len, rx_hash_key, rx_hash_fields_mask },
        struct ibv_sa_path_rec {
            dgid, sgid, dlid, slid, raw_traffic, flow_label, hop_limit, traffic_class, reversible, numb_path,
            pkey, sl, mtu_selector, mtu, rate_selector, rate, packet_life_time_selector, packet_life_time,
            preference
        },
        struct ibv_send_wr { wr_id, next, sg_list, num_sge, opcode, send_flags, imm_data, wr },
        struct ibv_sge { addr, length, lkey },
        struct ibv_srq { context, srq_context, pd, handle, mutex, cond, events_completed },
        struct ibv_srq_attr { max_wr, max_sge, srq_limit },
        struct ibv_srq_init_attr { srq_context, attr },
        struct ibv_srq_init_attr_ex { srq_context, attr, comp_mask, srq_type, pd, xrcd, cq, tm_cap },
        struct ibv_td { context },
        struct ibv_td_init_attr { comp_mask },
        struct ibv_tm_cap { max_num_tags, max_ops },
        struct ibv_tm_caps { max_rndv_hdr_size, max_num_tags, flags, max_ops, max_sge },
        struct ibv_tso_caps { max_tso, supported_qpts },
        struct ibv_values_ex { comp_mask, raw_clock },
        struct ibv_wc {
            wr_id, status, opcode, vendor_err, byte_len, imm_data, qp_num, src_qp, wc_flags, pkey_index, slid, sl,
            dlid_path_bits
        },
        struct ibv_wc_tm_info { tag, r#priv },
        struct ibv_xrcd { context },
        struct ibv_xrcd_init_attr { comp_mask, fd, oflags },
        struct rdma_addr { src_storage, dst_storage, addr },
        struct rdma_addrinfo {
            ai_flags, ai_family, ai_qp_type, ai_port_space, ai_src_len, ai_dst_len, ai_src_addr, ai_dst_addr,
            ai_src_canonname, ai_dst_canonname, ai_route_len, ai_route, ai_connect_len, ai_connect, ai_next
        },
        struct rdma_cm_event { id, listen_id, event, status, param },
        struct rdma_cm_id {
            verbs, channel, context, qp, route, ps, port_num, event, send_cq_channel, send_cq, recv_cq_channel,
            recv_cq, srq, pd, qp_type
        },
        struct rdma_cm_join_mc_attr_ex { comp_mask, join_flags, addr },
        struct rdma_conn_param {
            private_data, private_data_len, responder_resources, initiator_depth, flow_control, retry_count,
            rnr_retry_count, srq, qp_num
        },
        struct rdma_event_channel { fd },
        struct rdma_ib_addr { sgid, dgid, pkey },
        struct rdma_route { addr, path_rec, num_paths },
        struct rdma_ud_param { private_data, private_data_len, ah_attr, qp_num, qkey },
    }
}
