//! `modify_qp`: checks first, all of them, then takes over. Nothing changes on an error.

use wire::Gid;

use super::table;
use crate::attr::{AttrMask, QpAttr, QpState, QpType};
use crate::error::ModifyError;
use crate::qp_core::QpCore;
use crate::wr::AddressVector;

/// Flow labels have 20 bits.
pub(super) const MAX_FLOW_LABEL: u32 = 0xf_ffff;

/// Checks a modify against the table and each value, and says where it leads.
pub(crate) fn check(core: &QpCore, attr: &QpAttr, mask: AttrMask) -> Result<QpState, ModifyError> {
    let from = core.state();
    check_claim(from, attr, mask)?;
    let to = target(from, attr, mask);
    let step = table::find(from, to, core.qp_type).ok_or(ModifyError::NoTransition { from, to })?;
    check_supported(mask)?;
    none(mask - step.allowed(), ModifyError::NotAllowed)?;
    none(step.required - mask, ModifyError::Missing)?;
    check_values(core, attr, mask)?;
    Ok(to)
}

/// Takes over the attributes that the mask names.
pub(crate) fn apply(core: &mut QpCore, attr: &QpAttr, mask: AttrMask) {
    let draining = core.state() == QpState::Rts && target(QpState::Rts, attr, mask) == QpState::Sqd;
    if draining {
        // The request for an event belongs to this step: an earlier one is forgotten.
        core.attr.notify_drained = false;
    }
    take_over(&mut core.attr, attr, mask);
    if mask.intersects(AttrMask::AV | AttrMask::DEST_QPN) {
        let AddressVector { flow_label, .. } = core.attr.address;
        core.source_port = wire::source_port(flow_label, core.qpn, core.attr.dest_qpn);
    }
    if mask.contains(AttrMask::SQ_PSN) {
        core.sq.restart(attr.sq_psn);
    }
}

fn target(from: QpState, attr: &QpAttr, mask: AttrMask) -> QpState {
    if mask.contains(AttrMask::STATE) { attr.state } else { from }
}

/// A caller that knows about an asynchronous change says where it believes the queue
/// pair to be (IB specification 11.2.5.2, current state modifier).
fn check_claim(is: QpState, attr: &QpAttr, mask: AttrMask) -> Result<(), ModifyError> {
    let claimed = attr.current_state;
    if mask.contains(AttrMask::CUR_STATE) && claimed != is {
        return Err(ModifyError::NotInState { is, claimed });
    }
    Ok(())
}

/// Refuses attributes that the device does not have.
fn check_supported(mask: AttrMask) -> Result<(), ModifyError> {
    let unsupported = [
        (AttrMask::ALT_PATH, "an alternate path"),
        (AttrMask::PATH_MIG_STATE, "path migration"),
        (AttrMask::RATE_LIMIT, "packet pacing"),
    ];
    match unsupported.iter().find(|(bit, _)| mask.contains(*bit)) {
        Some((_, what)) => Err(ModifyError::Unsupported(what)),
        None => Ok(()),
    }
}

fn none(bits: AttrMask, error: impl FnOnce(AttrMask) -> ModifyError) -> Result<(), ModifyError> {
    if bits.is_empty() { Ok(()) } else { Err(error(bits)) }
}

/// Checks the values that the types leave open. PSNs and QPNs fit by type. Only the device knows the port's MTU; it
/// comes with the path MTU.
fn check_values(core: &QpCore, attr: &QpAttr, mask: AttrMask) -> Result<(), ModifyError> {
    let ranges = [
        (AttrMask::PORT, "port", attr.port.into(), 1, 1),
        (AttrMask::PKEY_INDEX, "pkey_index", attr.pkey_index.into(), 0, 0),
        (AttrMask::TIMEOUT, "timeout", attr.timeout.into(), 0, 31),
        (AttrMask::RETRY_CNT, "retry_count", attr.retry_count.into(), 0, 7),
        (AttrMask::RNR_RETRY, "rnr_retry", attr.rnr_retry.into(), 0, 7),
        (AttrMask::MIN_RNR_TIMER, "min_rnr_timer", attr.min_rnr_timer.into(), 0, 31),
        (AttrMask::AV, "flow_label", attr.address.flow_label, 0, MAX_FLOW_LABEL),
    ];
    for (bit, attribute, value, low, high) in ranges {
        if mask.contains(bit) && !(low..=high).contains(&value) {
            let value = u64::from(value);
            return Err(ModifyError::Value { attribute, value });
        }
    }
    if mask.contains(AttrMask::AV) && core.qp_type != QpType::Ud {
        check_path(&attr.address)?;
    }
    Ok(())
}

/// A connection goes from one address of ours to one of a peer's.
fn check_path(path: &AddressVector) -> Result<(), ModifyError> {
    if path.destination.is_multicast() {
        return Err(ModifyError::Path("its destination is a multicast group"));
    }
    check_ends(path).map_err(ModifyError::Path)
}

/// Packets go from an address of ours to another of the same kind.
pub(super) fn check_ends(path: &AddressVector) -> Result<(), &'static str> {
    let (source, destination) = (path.source, path.destination);
    if source == Gid::default() {
        return Err("it has no source GID");
    }
    if destination == Gid::default() {
        return Err("it has no destination GID");
    }
    if source.ip().is_ipv4() != destination.ip().is_ipv4() {
        return Err("one GID is IPv4, the other IPv6");
    }
    Ok(())
}

/// Copies each field whose bit is set.
macro_rules! copy_masked {
    ($own:ident, $new:ident, $mask:ident: $($bit:ident => $field:ident),+ $(,)?) => {
        $(if $mask.contains(AttrMask::$bit) { $own.$field = $new.$field; })+
    };
}

fn take_over(own: &mut QpAttr, new: &QpAttr, mask: AttrMask) {
    copy_masked!(own, new, mask:
        EN_SQD_ASYNC_NOTIFY => notify_drained,
        ACCESS_FLAGS => access,
        PKEY_INDEX => pkey_index,
        PORT => port,
        QKEY => qkey,
        AV => address,
        PATH_MTU => path_mtu,
        PATH_MTU => port_mtu,
        TIMEOUT => timeout,
        RETRY_CNT => retry_count,
        RNR_RETRY => rnr_retry,
        RQ_PSN => rq_psn,
        MAX_QP_RD_ATOMIC => max_rd_atomic,
        MIN_RNR_TIMER => min_rnr_timer,
        SQ_PSN => sq_psn,
        MAX_DEST_RD_ATOMIC => max_dest_rd_atomic,
        DEST_QPN => dest_qpn,
    );
}
